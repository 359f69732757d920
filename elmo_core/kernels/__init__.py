"""What makes the network fast.

Loops in C, kernels for GPUs, prepared weights, products in bfloat16, sparse gradients.
"""
