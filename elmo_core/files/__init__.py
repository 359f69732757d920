"""This project's own files: checkpoints, word vectors, token vectors."""
