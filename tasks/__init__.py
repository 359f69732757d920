"""Downstream tasks with ELMo's vectors: the sentence polarity task here, the tagger in tagging/. No flags."""
