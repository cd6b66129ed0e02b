"""A topic's records as three foreign consumers read them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import aiokafka
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from . import java
from .admin import QUIET
from .apache import ApacheCluster
from .cluster import KafkaCluster
from .load import index_of
from .waiting import Deadline

Headers = tuple[tuple[str, bytes | None], ...]
# Longer values are compared by their hash: some go through lines of text.
LONG = 4096


@dataclass(frozen=True, order=True)
class Row:
    """A record."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @staticmethod
    def digest(value: bytes | None) -> bytes | None:
        """How `value` stands in a row: itself, or what is made of a long one."""
        return b"sha256 " + hashlib.sha256(value).digest() if value is not None and len(value) > LONG else value


def read_by_librdkafka(cluster: KafkaCluster, topic: str, seconds: float = 60.0) -> list[Row]:
    """As confluent-kafka reads it, with checks of CRCs."""
    rows: list[Row] = []
    for message in _messages(cluster, topic, seconds):
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        headers = tuple(cast(list[tuple[str, bytes | None]], message.headers() or []))
        value = Row.digest(_bytes(message.value()))
        rows.append(Row(partition, offset, message.timestamp()[1], _bytes(message.key()), value, headers))
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def _messages(cluster: KafkaCluster, topic: str, seconds: float) -> Iterator[Message]:
    """All messages up to the ends that the topic has now."""
    deadline = Deadline(seconds)
    ends = {partition: end for partition, end in cluster.admin.end_offsets(topic).items() if end}
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "judge", "enable.auto.commit": False}
    reader = Consumer({**settings, "check.crcs": True, "isolation.level": "read_uncommitted", **QUIET})
    reader.assign([TopicPartition(topic, partition, 0) for partition in ends])
    try:
        while ends:
            assert not deadline.over, f"librdkafka did not reach {ends} of {topic}"
            for message in reader.consume(10_000, timeout=0.2):
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                yield message
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if ends.get(partition) == offset + 1:
                    del ends[partition]
    finally:
        reader.close()


def read_by_aiokafka(cluster: KafkaCluster, topic: str, seconds: float = 60.0) -> list[Row]:
    """As aiokafka reads it, with checks of CRCs."""

    async def read() -> list[Row]:
        rows: list[Row] = []
        reader = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False, check_crcs=True
        )
        await reader.start()
        try:
            partitions = [aiokafka.TopicPartition(topic, index) for index in cluster.admin.partitions(topic)]
            reader.assign(partitions)
            await reader.seek_to_beginning(*partitions)
            ends = {at: end for at, end in (await reader.end_offsets(partitions)).items() if end}
            while ends:
                for at, messages in (await reader.getmany(timeout_ms=500)).items():
                    rows.extend(
                        Row(
                            at.partition,
                            message.offset,
                            message.timestamp,
                            _bytes(message.key),
                            Row.digest(_bytes(message.value)),
                            tuple((name, _bytes(value)) for name, value in message.headers),
                        )
                        for message in messages
                    )
                    if messages[-1].offset + 1 >= ends.get(at, messages[-1].offset + 2):
                        del ends[at]
        finally:
            await reader.stop()
        return sorted(rows, key=lambda row: (row.partition, row.offset))

    return asyncio.run(asyncio.wait_for(read(), seconds))


def read_by_java(cluster: KafkaCluster, topic: str, seconds: float = 60.0) -> list[Row]:
    """As Kafka's own consumer reads it."""
    rows = []
    for found in java.judge(cluster, topic, "records", seconds=int(seconds)):
        value = b"sha256 " + base64.b64decode(found["sha256"]) if "sha256" in found else _decoded(found["value"])
        headers = tuple((base64.b64decode(name).decode(), _decoded(value)) for name, value in found["headers"])
        rows.append(
            Row(found["partition"], found["offset"], found["timestamp"], _decoded(found["key"]), value, headers)
        )
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def judges(cluster: KafkaCluster) -> dict[str, Callable[[KafkaCluster, str], list[Row]]]:
    """All judges that can read there: Kafka's own where there is Java."""
    found: dict[str, Callable[[KafkaCluster, str], list[Row]]] = {
        "librdkafka": read_by_librdkafka,
        "aiokafka": read_by_aiokafka,
    }
    if isinstance(cluster, ApacheCluster):
        found["java"] = read_by_java
    return found


def sequences(cluster: KafkaCluster, topic: str) -> list[dict[str, Any]]:
    """What JavaReader.java finds as the "sequence" of each partition; read by librdkafka where there is no Java."""
    if isinstance(cluster, ApacheCluster):
        return java.judge(cluster, topic, "sequence")
    partitions = cluster.admin.partitions(topic)
    found: dict[int, list[int]] = {partition: [] for partition in partitions}
    for message in _messages(cluster, topic, 120.0):
        partition, value = message.partition(), _bytes(message.value())
        assert partition is not None
        assert value is not None
        found[partition].append(index_of(value))
    return [_sequence(partition, len(partitions), indexes) for partition, indexes in found.items()]


def _sequence(partition: int, step: int, indexes: list[int]) -> dict[str, Any]:
    own = [index for index in indexes if index % step == partition]
    seen = Counter(own)
    due = range(partition, max(own, default=partition - step) + 1, step)
    return {
        "partition": partition,
        "count": len(indexes),
        "distinct": len(seen),
        "falls": sum(after <= before for before, after in pairwise(own)),
        "strays": len(indexes) - len(own),
        "twice": [index for index, times in seen.items() if times > 1][:10],
        "missing": [index for index in due if index not in seen][:10],
    }


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
