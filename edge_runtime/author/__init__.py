"""Floor 7, what a workstation does; only here is onnx imported, and nothing of it is frozen."""
