"""A sequence tagger: a BiGRU-CRF that reads word vectors and ELMo's. No flags in here."""
