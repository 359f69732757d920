"""The process and its environment: devices, threads, versions of Paddle."""
