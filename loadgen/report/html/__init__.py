"""The page: computed as sections first, then written as one file."""
