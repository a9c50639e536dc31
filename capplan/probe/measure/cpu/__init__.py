"""The CPU at hand: what the system says of it, and operators timed on it."""
