"""Trained models as static graphs, which run without this project's code."""
