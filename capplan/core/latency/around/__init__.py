"""What the host and other GPUs add to the time of a step on one GPU."""
