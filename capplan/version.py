"""The version of capplan, in one place that everything may import."""

__version__ = "0.9.0"
