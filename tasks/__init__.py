"""Downstream tasks that ELMo's vectors are carried into. No flags in here."""
