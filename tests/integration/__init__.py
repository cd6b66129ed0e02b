"""Grete on real Apache Kafka, seen from outside: foreign clients write, and foreign clients judge."""
