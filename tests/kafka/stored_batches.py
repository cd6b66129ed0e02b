"""Batches as a broker stores them: proof that a test's topic holds what the test is about."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from . import probe
from .cluster import KafkaCluster

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


def batches(cluster: KafkaCluster, topic: str, partition: int = 0) -> list[StoredBatch]:
    """All batches, in order, as the leader hands them out."""
    return [batch for batch, _ in stored_bytes(cluster, topic, partition)]


def stored_bytes(cluster: KafkaCluster, topic: str, partition: int) -> Iterator[tuple[StoredBatch, bytes]]:
    """The same, each with its bytes."""
    port = cluster.nodes[cluster.admin.leaders(topic)[partition]].port
    offset, end = cluster.admin.start_offsets(topic)[partition], -1
    while end < 0 or offset < end:
        end, data = probe.fetch(port.host, port.number, topic, partition, offset)
        before = offset
        for batch, content in _walk(data):
            yield batch, content
            offset = batch.last_offset + 1
        if offset == before:
            return


def _walk(data: bytes) -> Iterator[tuple[StoredBatch, bytes]]:
    at = 0
    while at + HEADER.size <= len(data):
        row = HEADER.unpack_from(data, at)
        base, length, _, magic, _, attributes, delta, _, _, producer_id, epoch, sequence, count = row
        assert magic == 2
        # The last one may be cut off.
        if at + 12 + length > len(data):
            return
        batch = StoredBatch(base, base + delta, attributes, count, producer_id, epoch, sequence)
        yield batch, data[at : at + 12 + length]
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
