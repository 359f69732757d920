"""Raw text to a corpus, and a corpus to a vocabulary. No flags in here."""
