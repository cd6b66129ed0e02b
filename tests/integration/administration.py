"""What tests of the admin client share: foreign groups, and a foreign client as the judge of topics and settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
    TopicMetadata,
)

from tests.kafka import KafkaCluster, eventually
from tests.kafka.admin import QUIET


def seen(servers: str, topic: str) -> TopicMetadata | None:
    """The topic as the broker at that address has it; None: it does not."""
    found = AdminClient({"bootstrap.servers": servers, **QUIET}).list_topics(timeout=10).topics
    return found.get(topic)


def settings(servers: str, topic: str) -> dict[str, str]:
    """The topic's settings, all of them."""
    client = AdminClient({"bootstrap.servers": servers, **QUIET})
    answer = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    entries = next(iter(answer.values())).result(10)
    return {name: entry.value for name, entry in entries.items()}


# The group protocols of consumers.
PROTOCOLS = ("classic", "consumer")


@contextmanager
def member(kafka: KafkaCluster, topic: str, group: str, protocol: str) -> Iterator[Consumer]:
    """A foreign member of the group, which has all partitions of the topic and has read one of its records."""
    if protocol == "consumer" and kafka.version.startswith("3."):
        pytest.skip("the new group protocol is there from Kafka 4.0 on")
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "client.id": "foreign",
            **QUIET,
        }
    )
    consumer.subscribe([topic])
    try:
        eventually(lambda: consumer.poll(0.1) is not None, 60.0, "a record")
        yield consumer
    finally:
        consumer.close()
