"""Downstream tasks on top of ELMo: tagging, classification and reading comprehension."""
