"""What a person sees: a report is computed first, then rendered; nothing is opened."""
