"""Downstream tasks on ELMo vectors: tagging/, classification/, reading/. No command-line flags."""
