"""Word senses in context."""
