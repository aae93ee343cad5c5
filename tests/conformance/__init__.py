"""Models and recordings that nobody here wrote, put to the whole runtime; nothing of them is part of the project."""
