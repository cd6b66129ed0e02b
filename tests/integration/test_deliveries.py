"""What `Deliveries` reports of batches of which only some records fail."""

from __future__ import annotations

import pytest

import grete
from grete.client import Producer
from tests.kafka import KafkaCluster

pytestmark = pytest.mark.kafka


def ready(producer: Producer, topic: str, partitions: int) -> None:
    """A record into each: a leader of a topic that is so new may answer at first that it is none, and of what is sent
    again after that it cannot be said for sure that it was not written.
    """
    for partition in range(partitions):
        producer.produce_sync(topic, b"", partition=partition, timeout=30.0)


def test_only_the_record_that_is_too_large_for_the_topic_fails(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, config={"max.message.bytes": 1000})
    values = [b"%d" % number for number in range(9)]
    values[5] = b"x" * 2000
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        ready(producer, topic, 1)
        deliveries = producer.produce_many(topic, values, partition=0)
        with pytest.raises(grete.DeliveryError, match="record 5"):
            deliveries.wait(30.0)
        assert deliveries.done
        ((index, error),) = deliveries.errors
        assert isinstance(error, grete.DeliveryError)
        assert (index, error.outcome, error.topic, error.partition) == (5, "not_written", topic, 0)
        outcomes = [delivery.outcome for delivery in deliveries]
        assert outcomes == ["written"] * 5 + ["not_written"] + ["written"] * 3
        assert [delivery.offset for delivery in deliveries] == [1, 2, 3, 4, 5, None, 6, 7, 8]


def test_failures_of_one_partition_are_found_among_those_of_others(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=3, config={"max.message.bytes": 1000})
    with Producer(
        {"bootstrap.servers": kafka.bootstrap_servers}, partitioner=lambda _, key, __: int(key or 0)
    ) as producer:
        records = [(b"%d" % (number % 3), b"x" * (2000 if number in (4, 7, 11) else 10)) for number in range(12)]
        ready(producer, topic, 3)
        deliveries = producer.produce_many(topic, records)
        producer.flush(30.0)
        assert [index for index, _ in deliveries.errors] == [4, 7, 11]


def test_callbacks_hear_of_each_record_once(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=3, config={"max.message.bytes": 1000})
    heard: list[tuple[int, bool]] = []
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        ready(producer, topic, 3)
        for number in range(3000):
            producer.produce(
                topic,
                b"x" * (2000 if number % 500 == 7 else 10),
                partition=number % 3,
                on_delivery=lambda delivery, number=number: heard.append((number, delivery.error is None)),  # type: ignore[misc]
            )
        producer.flush(30.0)
    assert sorted(heard) == [(number, number % 500 != 7) for number in range(3000)]
