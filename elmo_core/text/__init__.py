"""From characters to batches of tokens."""
