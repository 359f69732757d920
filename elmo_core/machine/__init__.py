"""The process and its environment: devices, threads, ranks, the disk."""
