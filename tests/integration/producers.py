"""Producers as tests want them, and what they have written."""

from __future__ import annotations

import grete
from tests.kafka import KafkaCluster
from tests.kafka.foreign_readers import read_by_librdkafka

# Limits that are soon over, for what is lost on purpose.
QUICK: dict[str, object] = {
    "request.timeout.ms": 800,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}


def producer(servers: str, *, max_block: str = "20s", **settings: object) -> grete.client.Producer:
    """A producer; `settings` are Kafka's with underscores for dots."""
    kafka = {name.replace("_", "."): value for name, value in settings.items()}
    return grete.client.Producer({"bootstrap.servers": servers, **kafka}, max_block=max_block)


def quick(servers: str, *, max_block: str = "20s", **settings: object) -> grete.client.Producer:
    """One that gives up a silent broker soon."""
    kafka = {name.replace("_", "."): value for name, value in settings.items()}
    return grete.client.Producer({"bootstrap.servers": servers, **QUICK, **kafka}, max_block=max_block)


def values(cluster: KafkaCluster, topic: str, partition: int = 0) -> list[bytes | None]:
    """What librdkafka finds in a partition, in order."""
    return [row.value for row in read_by_librdkafka(cluster, topic) if row.partition == partition]
