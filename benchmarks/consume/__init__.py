"""Throughput: every client reads the same topics, one core each side."""
