"""The vectors of a text or of a vocabulary in a file. No flags in here."""
