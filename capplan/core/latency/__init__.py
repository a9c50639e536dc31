"""Latency of a step: roofline, kernel times, intervals, breakdown."""
