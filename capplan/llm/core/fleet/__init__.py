"""Deployments of a language model for a load: which carry it, how many GPUs, at what cost, and why others fail."""
