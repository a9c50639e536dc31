"""Measure a model on the device at hand: what is asked, the run, its file, and theory beside it."""
