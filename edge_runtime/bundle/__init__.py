"""Floor 3, bytes that can be trusted; it never runs a model."""
