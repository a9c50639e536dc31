"""Run each ONNX operator by PyTorch's operators."""
