"""What inference engines (TensorRT, ONNX Runtime) make of a recorded graph."""
