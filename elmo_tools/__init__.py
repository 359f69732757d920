"""What one does with a biLM.

Pretrain it, prepare its text, embed corpora, look at senses, experiment, export.

No command-line flags: the scripts at the root read these and call the functions here.
"""
