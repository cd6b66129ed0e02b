"""Swarms that run on this machine: their discovery, and `grete ps`."""
