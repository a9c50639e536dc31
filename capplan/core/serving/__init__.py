"""Load, queueing, simulation and fleet sizing."""
