"""Optimizers, and processes that train together."""
