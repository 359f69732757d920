"""The process and its environment: devices, threads, ranks, versions of Paddle."""
