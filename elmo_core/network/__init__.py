"""The network of the paper, from characters to the softmax and the mix of layers."""
