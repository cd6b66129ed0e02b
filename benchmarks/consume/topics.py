"""The topics of the throughput benchmark, filled by librdkafka."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from benchmarks.common.broker import Broker
from benchmarks.common.build import c_program
from benchmarks.common.pinning import Cores, pinned

PRODUCER = "librdkafka: batch.size=500000, linger.ms=20, batch.num.messages=1000000"


@dataclass(frozen=True)
class Topic:
    """A topic and its records."""

    name: str
    records: int
    kind: str
    text: str
    partitions: int = 1
    codec: str = "none"

    @property
    def compressed(self) -> bool:
        return self.codec != "none"


JSON = "JSON values of ~107 B, keys of 8 B"
TOPICS = {
    topic.name: topic
    for topic in (
        Topic("T23", 10_000_000, "bytes23", "values of 23 B, no keys"),
        Topic("T100", 5_000_000, "json", JSON),
        Topic("T100lz4", 5_000_000, "json", JSON, codec="lz4"),
        Topic("T100zstd", 5_000_000, "json", JSON, codec="zstd"),
        Topic("T100x8", 5_000_000, "json", JSON, partitions=8),
        Topic("T1k", 1_000_000, "kib", "values of 1 KiB, no keys"),
    )
}


@dataclass(frozen=True)
class Filled:
    """A topic on the broker, and what every client must find in it."""

    topic: Topic
    records: int
    bytes: int


def fill(broker: Broker, cores: Cores, topic: Topic, records: int) -> Filled:
    """Make the topic and fill it; the producer runs on the client's core."""
    broker.admin.create_topic(topic.name, topic.partitions, 1, {"retention.ms": -1})
    command = [c_program("native/fill.c"), broker.bootstrap, topic.name, topic.partitions, records, topic.kind]
    words = [str(word) for word in [*command, f"compression.codec={topic.codec}"]]
    with pinned(cores.client):
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    counts = json.loads(done.stdout)
    return Filled(topic, counts["records"], counts["bytes"])
