"""What a word means in context. No flags in here."""
