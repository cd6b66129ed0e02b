"""A paced topic of 23-byte values: CPU of the consumer and latency from produce to handler."""
