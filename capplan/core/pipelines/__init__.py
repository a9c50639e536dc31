"""Pipelines: models of several parts that run many times, as one answer of memory and time."""
