"""What each ONNX operator is in PyTorch's operators."""
