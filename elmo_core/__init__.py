"""The packages that elmo.py is made of: encoding, network, training and kernels above weights,
text, config.py, files and machine.
"""

__version__ = "2.0.0"
