"""Floor 3, one wrapper for each foreign library that talks to the world; no meaning is given to bytes here."""
