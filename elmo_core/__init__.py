"""What elmo.py is made of, in packages: network and weights above files, text, config.py and machine."""
