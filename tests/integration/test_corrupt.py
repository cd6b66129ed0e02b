"""A batch that is corrupt on the broker's disk: its partition stops there, by name, and the others go on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import grete
from tests.integration.conftest import StartRecorder
from tests.integration.recorder_check import Ledger
from tests.integration.topic_reader import consumer, offsets, reached, take
from tests.kafka import KafkaCluster, eventually, fill, value_of
from tests.kafka.stored_batches import batches

pytestmark = [pytest.mark.kafka, pytest.mark.apache("a byte is flipped in a file of the broker")]
BATCH = 100


class BadByte:
    """One flipped byte in a value of a partition's segment; the broker sends files as they are."""

    def __init__(self, cluster: KafkaCluster, topic: str, partition: int, value: bytes) -> None:
        directory = cluster.nodes[1].directory / "data" / f"{topic}-{partition}"
        (self._segment,) = directory.glob("*.log")
        self._at = self._segment.read_bytes().index(value) + 20

    def flip(self) -> None:
        with self._segment.open("r+b") as file:
            file.seek(self._at)
            byte = file.read(1)[0]
            file.seek(self._at)
            file.write(bytes([byte ^ 0x10]))


@pytest.fixture
def bad_byte(kafka: KafkaCluster, topic: str) -> BadByte:
    """A topic of two partitions with 1000 records each, in batches of 100; offset 250 of partition 1 is corrupt."""
    kafka.create_topic(topic, partitions=2)
    for first in range(0, 2000, 2 * BATCH):
        fill(kafka.bootstrap_servers, topic, 2 * BATCH, partitions=2, first_index=first)
    assert 200 in [batch.base_offset for batch in batches(kafka, topic, 1)]
    byte = BadByte(kafka, topic, 1, value_of(2 * 250 + 1, 100))
    byte.flip()
    return byte


def test_the_partition_stops_and_the_other_goes_on(kafka: KafkaCluster, topic: str, bad_byte: BadByte) -> None:
    rows: dict[tuple[str, int], list[grete.Message]] = {(topic, 0): [], (topic, 1): []}
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(topic, 0, 0), (topic, 1, 0)])
        with pytest.raises(grete.CorruptBatchError, match=rf"{topic}\[1\].*offset 200") as caught:
            eventually(lambda: take(reader, rows, 0.25) and False, 30.0, "the error")
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 1, 200)

        def other_read() -> bool:
            # It goes on to say so whenever there is nothing else to hand out.
            with suppress(grete.CorruptBatchError):
                take(reader, rows, 0.25)
            return reached(reader, {(topic, 0): 1000})

        eventually(other_read, 30.0, "partition 0")
        assert offsets(rows[topic, 0]) == list(range(1000))
        assert offsets(rows[topic, 1]) == list(range(200))

        # Beyond it, on request.
        reader.seek(topic, 1, 300)
        eventually(lambda: take(reader, rows, 0.25) >= 0 and reached(reader, {(topic, 1): 1000}), 30.0, "the rest")
        assert offsets(rows[topic, 1]) == [*range(200), *range(300, 1000)]


def test_the_same_offset_can_be_read_once_it_is_whole_again(kafka: KafkaCluster, topic: str, bad_byte: BadByte) -> None:
    rows: dict[tuple[str, int], list[grete.Message]] = {(topic, 1): []}
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(topic, 1, 0)])
        for _ in range(2):
            with pytest.raises(grete.CorruptBatchError):
                eventually(lambda: take(reader, rows, 0.25) and False, 30.0, "the error")
            reader.seek(topic, 1, 200)
        bad_byte.flip()

        def all_read() -> bool:
            try:
                take(reader, rows, 0.25)
            except grete.CorruptBatchError:
                # What was fetched before it was mended.
                reader.seek(topic, 1, 200)
            return reached(reader, {(topic, 1): 1000})

        eventually(all_read, 30.0, "the whole partition")
    assert offsets(rows[topic, 1]) == list(range(1000))
    assert [row.value for row in rows[topic, 1]] == [value_of(2 * i + 1, 100) for i in range(1000)]


def test_an_app_names_it_and_works_on(
    kafka: KafkaCluster, topic: str, bad_byte: BadByte, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    run = start_recorder(kafka, topic, topic)
    run.until(lambda: Ledger(tmp_path).count >= 1200, 30.0, "partition 0 and the sound start of partition 1")
    run.until(lambda: f"{topic}[1]" in run.output and "offset 200" in run.output, 30.0, "the name of the batch")
    assert run.stop() == 0, run.output
    assert kafka.admin.committed(topic) == {(topic, 0): 1000, (topic, 1): 200}
    Ledger(tmp_path).assert_exactly_once_in_order({0: 1000, 1: 200})


def test_each_of_two_corrupt_partitions_is_named(kafka: KafkaCluster, topic: str, bad_byte: BadByte) -> None:
    BadByte(kafka, topic, 0, value_of(2 * 250, 100)).flip()
    rows: dict[tuple[str, int], list[grete.Message]] = {(topic, 0): [], (topic, 1): []}
    ends = {(topic, 0): 1000, (topic, 1): 1000}
    reported = []
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(topic, 0, 0), (topic, 1, 0)])

        def all_read() -> bool:
            try:
                take(reader, rows, 0.25)
            except grete.CorruptBatchError as error:
                reported.append((error.partition, error.offset))
                reader.seek(error.topic, error.partition, error.offset + BATCH)
            return reached(reader, ends)

        eventually(all_read, 30.0, lambda: f"both partitions: {reported}")
    assert sorted(reported) == [(0, 200), (1, 200)]
    for row in rows.values():
        assert offsets(row) == [*range(200), *range(300, 1000)]
