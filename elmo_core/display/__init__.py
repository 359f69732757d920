"""Figures, and lines for a terminal."""
