"""The charts of the procurement report."""
