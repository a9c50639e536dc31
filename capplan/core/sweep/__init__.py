"""Sweeps: the columns of their tables, and how their questions are written down and compared."""
