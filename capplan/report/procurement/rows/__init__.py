"""From plans to the candidates of a decision, and from its options to the rows of a report."""
