"""Pretraining: the start of a run, its optimizer, its folder, perplexity. No flags in here."""
