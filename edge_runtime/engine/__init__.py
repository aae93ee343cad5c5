"""Floor 4, the one door to onnxruntime; it knows tensors, never units."""
