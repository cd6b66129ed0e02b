"""Tests that need no Kafka."""
