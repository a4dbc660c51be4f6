"""The machine that would send the load."""
