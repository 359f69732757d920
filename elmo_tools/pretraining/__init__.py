"""Pretraining: the training loop, resuming, the run's folder, perplexity."""
