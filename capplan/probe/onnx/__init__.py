"""Read ONNX files as data, and run their graphs on PyTorch's operators; no weights are read, no code is executed."""
