"""Measurements: types, statistics, comparison with other runs and with theory."""
