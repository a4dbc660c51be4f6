"""A judged run in the forms that other programs read; each number is the report's."""
