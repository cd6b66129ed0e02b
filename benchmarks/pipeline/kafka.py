"""Brokers for one measurement: embedded ones in the driver's process, or Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import grete.client
from benchmarks.pipeline.records import BATCH, INVOICES, ORDERS, order_values
from grete.broker import Broker
from tests.kafka import ApacheCluster

# What pages say of the brokers, by kind.
BROKERS = {
    "embedded": "the embedded broker runs in another process",
    "apache": "Apache Kafka, one node, runs beside the client",
}


class Kafka:
    """The two topics of a measurement, with one partition each."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = grete.client.Admin({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        self._admin.close()

    def create_topics(self) -> None:
        """Makes both topics."""
        for topic in (ORDERS, INVOICES):
            self._admin.create_topic(topic, 1)

    def fill(self, count: int) -> None:
        """Writes orders: `count`, rounded up to whole batches."""
        with grete.client.Producer({"bootstrap.servers": self.bootstrap}) as producer:
            for first in range(0, count, BATCH):
                values, keys = _orders(first)
                producer.produce_many(ORDERS, values, keys=keys)

    def written(self) -> int:
        """Number of invoices. With transactions, this counts markers, and records that are not committed."""
        return self._admin.offsets([(INVOICES, 0, "latest")])[INVOICES, 0]

    def committed(self) -> int:
        """Committed offset of the client, which has the only group: orders that are done in committed transactions."""
        for group in self._admin.groups():
            return self._admin.committed(group.group).get((ORDERS, 0), 0)
        return 0


@cache
def _orders(first: int) -> tuple[list[bytes], list[bytes]]:
    """Keeps what all clients get: encoding takes longer than writing."""
    return order_values(first, BATCH)


@contextmanager
def new_kafka(kind: str) -> Iterator[Kafka]:
    """Brokers without any data. `kind`: embedded or apache."""
    if kind == "apache":
        with ApacheCluster(heap="2g", fast_start=False) as cluster:
            yield from _opened(cluster.bootstrap_servers)
        return
    with Broker(memory="4GiB") as broker:
        yield from _opened(broker.bootstrap_servers)


def _opened(bootstrap: str) -> Iterator[Kafka]:
    kafka = Kafka(bootstrap)
    try:
        kafka.create_topics()
        yield kafka
    finally:
        kafka.close()
