"""GPUs, their prices and devices as text tables."""
