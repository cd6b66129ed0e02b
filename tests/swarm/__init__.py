"""The supervisor with nodes that need no Kafka."""
