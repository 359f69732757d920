"""The process, its devices, other processes, the disk."""
