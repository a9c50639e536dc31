"""What torch.compile (Inductor) makes of a recorded graph."""
