"""Psycholinguistic experiments with a language model: minimal pairs, regions of sentences, n-grams to compare with."""
