"""Floor 1, pure frozen values: what was promised; nothing here reads a file or a clock."""
