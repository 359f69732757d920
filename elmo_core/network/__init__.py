"""What the paper describes, from characters to the softmax, and its fast implementation."""
