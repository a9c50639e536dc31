"""Parts of the procurement report's use case."""
