"""Psycholinguistic experiments with a language model.

Minimal pairs, regions of sentences, and n-grams to compare with.
"""
