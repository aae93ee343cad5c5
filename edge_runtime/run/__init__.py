"""Floor 6, what a device does; only boot makes a model that may serve."""
