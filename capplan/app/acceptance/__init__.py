"""Acceptance of machines: what drivers and benchmarks wrote of them, compared with a plan."""
