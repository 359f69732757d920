"""Reading comprehension by bidirectional attention: the span of a passage that is the answer."""
