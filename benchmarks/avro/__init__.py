"""Avro beside confluent-kafka's serializers and fastavro: records per second of CPU."""
