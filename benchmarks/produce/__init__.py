"""Synchronous latency, asynchronous throughput, and what waiting costs."""
