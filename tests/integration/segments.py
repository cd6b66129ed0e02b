"""Kafka's log files, read as they lie on disk: proof that a test's topic holds what the test is about."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.kafka import KafkaCluster

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# base offset, length, leader epoch, magic, crc, attributes, last offset delta ... record count
HEADER = struct.Struct(">qiibIhiqqqhii")


@dataclass(frozen=True)
class StoredBatch:
    """A record batch's header."""

    base_offset: int
    last_offset: int
    attributes: int
    count: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & 0x10)

    @property
    def control(self) -> bool:
        return bool(self.attributes & 0x20)


def batches(cluster: KafkaCluster, topic: str, partition: int = 0, node: int = 1) -> list[StoredBatch]:
    """The batches of all segments, in order."""
    directory = cluster.nodes[node].directory / "data" / f"{topic}-{partition}"
    found: list[StoredBatch] = []
    for segment in sorted(directory.glob("*.log")):
        found.extend(_walk(segment.read_bytes()))
    return found


def _walk(data: bytes) -> Iterator[StoredBatch]:
    at = 0
    while at + HEADER.size <= len(data):
        row = HEADER.unpack_from(data, at)
        base, length, _, magic, _, attributes, delta, _, _, producer_id, epoch, sequence, count = row
        # Preallocated or half-written space ends the segment.
        if magic != 2 or length <= 0:
            return
        yield StoredBatch(base, base + delta, attributes, count, producer_id, epoch, sequence)
        at += 12 + length


def assert_sequences(stored: list[StoredBatch]) -> None:
    """Each producer's sequence numbers count its records: from 0 in each epoch, without a gap, in order."""
    due: dict[tuple[int, int], int] = {}
    epochs: dict[int, int] = {}
    for batch in stored:
        producer = (batch.producer_id, batch.producer_epoch)
        assert batch.producer_id >= 0, f"without a producer id: {batch}"
        assert batch.producer_epoch >= epochs.get(batch.producer_id, 0), f"of an epoch that was over: {batch}"
        epochs[batch.producer_id] = batch.producer_epoch
        assert batch.base_sequence == due.get(producer, 0), f"sequence {due.get(producer, 0)} was due: {batch}"
        # After the highest number comes 0.
        due[producer] = (batch.base_sequence + batch.count) & 0x7FFFFFFF
