"""Timing done right on the device at hand: warm-up, device events, memory, energy, largest batch, pipelines."""
