"""Run code that is not ours (models and their libraries) without side effects."""
