"""Look before a run: a vLLM's source, a live server, this machine."""
