"""The packages that elmo.py is made of: network and weights above files, text, config.py and machine."""

__version__ = "2.0.0"
