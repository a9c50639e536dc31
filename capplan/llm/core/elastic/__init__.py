"""Fleets that follow their load: replicas that start and stop, what requests see then, and what it costs."""
