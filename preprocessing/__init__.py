"""From raw text to a corpus, a vocabulary or word vectors."""
