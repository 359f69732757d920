"""Files: atomic writes, locks, and readers of arrays, word vectors and compressed text that find damage."""
