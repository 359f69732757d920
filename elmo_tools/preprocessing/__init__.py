"""Data: published data sets; from raw text to a corpus or word vectors."""
