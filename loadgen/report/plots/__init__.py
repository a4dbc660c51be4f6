"""Charts as data, and their one way onto paper."""
