"""What to choose by latency: the batch, the framework, another GPU."""
