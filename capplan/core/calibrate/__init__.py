"""Fit and judge calibrations on measured latencies."""
