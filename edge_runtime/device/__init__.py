"""Floor 4, what this machine is and can do, read from kernel files; it decides nothing."""
