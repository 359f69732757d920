"""A sequence tagger: a BiGRU-CRF that reads word vectors and, beside them, ELMo's. No flags in here."""
