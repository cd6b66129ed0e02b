"""Command `grete doctor`: looks where a connection to Kafka fails, step by step."""
