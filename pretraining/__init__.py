"""Pretraining: the training loop, optimizers, resuming, the run's folder, perplexity."""
