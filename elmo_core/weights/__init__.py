"""Weights of other implementations, read and written as checkpoints."""
