"""Vectors of a text, in a file."""
