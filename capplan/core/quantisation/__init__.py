"""Quantised linear layers in PyTorch: which kernels run, what their weights take, which GPUs can run them."""
