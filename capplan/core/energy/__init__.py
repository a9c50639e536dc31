"""Energy of work on a card: the power that a step draws, and its joules."""
