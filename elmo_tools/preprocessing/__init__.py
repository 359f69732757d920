"""From raw text to a corpus or word vectors."""
