"""Files: atomic writes, locks, and readers of arrays and word vectors, which find damage."""
