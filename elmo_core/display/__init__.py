"""What people look at: figures and lines for a terminal."""
