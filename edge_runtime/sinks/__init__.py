"""Floor 4, where answers and state go; no answer is changed in value here."""
