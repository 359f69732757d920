"""The version of Paddle that PyTorch stands in for, where and as elmo_core looks for it."""

full_version = '3.3.1'  # fmt: skip
