"""Hand a chosen deployment over: the command that launches it, and why each of its options stands there."""
