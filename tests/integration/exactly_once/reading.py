"""What others read of the results: librdkafka, with `read_committed`."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka

import grete
from tests.kafka import Deadline, KafkaCluster


def committed(kafka: KafkaCluster, topic: str, partitions: int = 1) -> list[bytes]:
    """Values of committed records, in the order of each partition, up to their ends."""
    return [value for _, value in committed_records(kafka, topic, partitions)]


def committed_records(kafka: KafkaCluster, topic: str, partitions: int = 1) -> list[tuple[bytes | None, bytes]]:
    """Keys and values of committed records."""
    return [(message.key(), message.value() or b"") for message in committed_messages(kafka, topic, partitions)]


def committed_messages(
    kafka: KafkaCluster, topic: str, partitions: int = 1, seconds: float = 60.0
) -> Iterator[confluent_kafka.Message]:
    """Committed records, in the order of each partition, up to their ends."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, at, 0) for at in range(partitions)])
        ended: set[int] = set()
        deadline = Deadline(seconds)
        while len(ended) < partitions:
            messages = consumer.consume(10_000, 1.0)
            assert not deadline.over, "no end of the partition"
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition() or 0)
                else:
                    raise AssertionError(error)
    finally:
        consumer.close()


def fill(kafka: KafkaCluster, topic: str, values: list[bytes], partitions: int = 1, outputs: int = 1) -> str:
    """Makes the source with these records (key: the value), the target and the dead letter topic; the target's name."""
    kafka.create_topic(topic, partitions=partitions)
    kafka.create_topic(f"{topic}.out", partitions=outputs)
    kafka.create_topic(f"{topic}.dlq", partitions=1)
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.produce_many(topic, [(value, value) for value in values]).wait(30)
    return f"{topic}.out"
