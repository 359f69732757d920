"""A text's vectors in a file. No flags in here."""
