"""Simulate one replica request by request: arrivals, continuous batching, and what the requests see."""
