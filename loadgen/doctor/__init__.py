"""Look before a run: the server, its source, this machine."""
