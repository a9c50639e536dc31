"""Measure a model on the device at hand: the request, the run, its file, and the comparison with theory."""
