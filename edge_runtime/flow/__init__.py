"""Floor 2, the pure stages from bytes to answers; no clock, file, socket, thread or environment."""
