"""Floor 4, where bytes come from; no byte is interpreted here."""
