"""Commands on plans that were saved: compare two, and hold one to limits."""
