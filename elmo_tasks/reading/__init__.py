"""Reading comprehension: the span of a passage that answers a question, read by a bidirectional-attention network."""
