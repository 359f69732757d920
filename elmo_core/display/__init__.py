"""A picture of surprisal, and lines for a terminal."""
