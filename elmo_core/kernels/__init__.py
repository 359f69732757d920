"""What makes the network fast: loops in C, kernels for GPUs, packed weights, 16-bit products, sparse gradients."""
