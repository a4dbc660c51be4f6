"""A live server, looked at by a few harmless questions."""
