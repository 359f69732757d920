"""What one does with a biLM: encoding sentences, choosing layers, and what an embedder answers."""
