"""The network of the paper, from characters to the softmax, and its fast implementation."""
