"""What elmo.py is made of."""
