"""A sequence tagger: a BiGRU-CRF over word vectors and ELMo."""
