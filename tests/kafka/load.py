"""Test data by librdkafka, fast and predictable: record i says where it belongs and what it holds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from .admin import QUIET

PATTERN = bytes(range(256))
# Where a record's filler comes from: 256 starting points, each followed by enough bytes.
_CACHED_SIZE = 1 << 16
_FILLER = PATTERN * (_CACHED_SIZE // 256 + 2)


def value_of(index: int, size: int) -> bytes:
    """The value of record `index`: the index as 8 bytes big endian, then bytes that count on from it."""
    if size < 8:
        raise ValueError(f"a value has at least 8 bytes, for its index: {size}")
    start = index & 255
    filler = _FILLER if size <= _CACHED_SIZE else PATTERN * (size // 256 + 2)
    return struct.pack(">Q", index) + filler[start : start + size - 8]


def index_of(value: bytes) -> int:
    """The index in a value of `value_of`."""
    return int.from_bytes(value[:8], "big")


def partition_of(index: int, partitions: int) -> int:
    """`fill` deals records out in turn: so record i is at offset i // partitions (offset 0 is the first one)."""
    return index % partitions


def fill(
    bootstrap_servers: str,
    topic: str,
    count: int,
    *,
    partitions: int = 1,
    value_size: int = 100,
    codec: str = "none",
    first_index: int = 0,
    key: Callable[[int], bytes | None] | None = None,
    timestamp: Callable[[int], int] | None = None,
    properties: Mapping[str, str | int | float | bool] | None = None,
    timeout: float = 300.0,
) -> None:
    """Produce `count` records with acks=all, idempotent, and wait for all acknowledgements.

    codec: none, gzip, snappy, lz4 or zstd. key, timestamp (ms): functions of the index. Raises if any record failed.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 256 * 1024,
            # Only what fails is reported: five million calls for successes would cost as much as producing.
            "delivery.report.only.error": True,
            "message.max.bytes": 64 << 20,
            **QUIET,
            **(properties or {}),
        }
    )
    failures: list[KafkaError] = []

    def failed(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    for index in range(first_index, first_index + count):
        row: dict[str, object] = {"partition": index % partitions, "on_delivery": failed}
        if key is not None:
            row["key"] = key(index)
        if timestamp is not None:
            row["timestamp"] = timestamp(index)
        _produce(producer, topic, value_of(index, value_size), row)
    left = producer.flush(timeout)
    if failures:
        raise KafkaException(failures[0])
    if left:
        raise TimeoutError(f"{left} of {count} records were not acknowledged within {timeout:g} s")


def _produce(producer: Producer, topic: str, value: bytes, row: Mapping[str, object]) -> None:
    while True:
        try:
            producer.produce(topic, value, **row)  # type: ignore[arg-type]
            return
        except BufferError:
            # Waits for the queue to move, at most this long; an event wakes it earlier.
            producer.poll(0.1)
