"""Judging: from records to outcomes, causes, goodput and a verdict; no I/O."""
