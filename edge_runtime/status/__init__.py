"""Floor 5, what the device tells about itself; it reads ledgers and steers nothing."""
