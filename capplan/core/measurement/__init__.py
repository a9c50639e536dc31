"""Measurements: types, statistics, comparison, theory beside measurement."""
