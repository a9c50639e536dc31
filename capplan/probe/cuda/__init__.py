"""Rules for what CUDA would run where meta tensors take another path."""
