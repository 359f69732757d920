"""Embedding a corpus into HDF5."""
