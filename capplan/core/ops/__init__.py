"""Operators: classes, FLOP formulas, attention backends, analysis."""
