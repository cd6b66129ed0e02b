"""What foreign producers write, Grete reads: codecs, transactions, compaction, headers, large records."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.topic_reader import consumer, offsets, read_to
from tests.kafka import KafkaCluster, eventually, fill, value_of
from tests.kafka.foreign_producer import produce
from tests.kafka.stored_batches import CODECS, batches
from tests.kafka.waiting import Deadline

pytestmark = pytest.mark.kafka

Judged = tuple[int, int, bytes | None, bytes | None]


def foreign_rows(cluster: KafkaCluster, topic: str, end: int, isolation: str = "read_committed") -> list[Judged]:
    """(offset, timestamp, key, value) of partition 0 as librdkafka reads it, up to its end."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "judge", "isolation.level": isolation}
    reader = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, 0, 0)])
    rows: list[Judged] = []
    try:
        deadline = Deadline(30.0)
        while not deadline.over:
            for message in reader.consume(500, timeout=0.2):
                if message.error() is not None:
                    assert reader.position([TopicPartition(topic, 0)])[0].offset <= end
                    return rows
                offset = message.offset()
                assert offset is not None
                rows.append((offset, message.timestamp()[1], message.key(), message.value()))
    finally:
        reader.close()
    raise AssertionError(f"librdkafka did not reach the end of {topic}: {len(rows)} records")


def our_rows(cluster: KafkaCluster, topic: str, end: int, isolation: str = "read_committed") -> list[Judged]:
    """The same by Grete."""
    with consumer(cluster.bootstrap_servers, isolation_level=isolation) as reader:
        reader.assign([(topic, 0, 0)])
        rows = read_to(reader, {(topic, 0): end})[topic, 0]
    return [(row.offset, row.timestamp, row.key, row.value) for row in rows]


def indexes(rows: Sequence[Judged]) -> list[int]:
    return [int.from_bytes(value[:8], "big") for *_, value in rows if value is not None]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", ["librdkafka", "java"])
def test_codecs(kafka: KafkaCluster, topic: str, writer: str, codec: str) -> None:
    kafka.create_topic(topic)
    if writer == "java":
        produce(kafka, topic, 5000, codec=codec, keys=7, size=200, properties={"linger.ms": 50, "batch.size": 100_000})
    else:
        fill(kafka.bootstrap_servers, topic, 5000, codec=codec, value_size=200, key=lambda i: b"key-%d" % (i % 7))
    stored = batches(kafka, topic)
    assert {batch.codec for batch in stored} == {codec}
    assert max(batch.count for batch in stored) > 10
    rows = our_rows(kafka, topic, 5000)
    assert [offset for offset, *_ in rows] == list(range(5000))
    assert [(key, value) for *_, key, value in rows] == [(b"key-%d" % (i % 7), value_of(i, 200)) for i in range(5000)]
    now = time.time() * 1000
    assert all(now - 120_000 < timestamp <= now for _, timestamp, *_ in rows)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_aborted_transactions_are_left_out_when_only_committed_is_read(
    kafka: KafkaCluster, topic: str, codec: str
) -> None:
    kafka.create_topic(topic)
    produce(kafka, topic, 2000, codec=codec, transaction=50, abort=3, properties={"transactional.id": topic})
    end = kafka.admin.end_offsets(topic)[0]
    assert end == 2000 + 40, "each transaction ends with a marker"
    rows = our_rows(kafka, topic, end)
    assert indexes(rows) == [i for i in range(2000) if (i // 50 + 1) % 3]
    assert rows == foreign_rows(kafka, topic, end)
    everything = our_rows(kafka, topic, end, "read_uncommitted")
    assert indexes(everything) == list(range(2000))


def test_two_interleaved_producers_one_of_which_aborts(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)

    def write(name: str, first: int, abort: int) -> None:
        settings = {"transactional.id": f"{topic}-{name}", "linger.ms": 0}
        produce(kafka, topic, 1000, properties=settings, transaction=20, abort=abort, first=first)

    threads = [
        threading.Thread(target=write, args=("a", 0, 2)),
        threading.Thread(target=write, args=("b", 1_000_000, 3)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end = kafka.admin.end_offsets(topic)[0]
    rows = our_rows(kafka, topic, end)
    found = indexes(rows)
    assert [i for i in found if i < 1000] == [i for i in range(1000) if (i // 20 + 1) % 2]
    late = [i - 1_000_000 for i in found if i >= 1_000_000]
    assert late == [i for i in range(1000) if (i // 20 + 1) % 3]
    assert rows == foreign_rows(kafka, topic, end)


def test_an_open_transaction_holds_back_what_follows_until_it_ends(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    settings = {"transactional.id": topic, "transaction.timeout.ms": 6000}
    produce(kafka, topic, 20, first=10, transaction=20, left_open=1, properties=settings)
    fill(kafka.bootstrap_servers, topic, 10, first_index=30)
    with consumer(kafka.bootstrap_servers, isolation_level="read_committed") as reader:
        reader.assign([(topic, 0, 0)])
        before = read_to(reader, {(topic, 0): 10})[topic, 0]
        assert offsets(before) == list(range(10))
        # The coordinator aborts the transaction when its time is up; from then on the rest can be read.
        after = read_to(reader, {(topic, 0): 41})[topic, 0]
    assert offsets(after) == list(range(30, 40))
    assert [row.value for row in after] == [value_of(i, 100) for i in range(30, 40)]


def test_only_control_records_at_the_tail(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    produce(kafka, topic, 100, transaction=10, abort=1, properties={"transactional.id": topic})
    stored = batches(kafka, topic)
    assert stored[-1].control
    end = kafka.admin.end_offsets(topic)[0]
    assert our_rows(kafka, topic, end) == []
    fill(kafka.bootstrap_servers, topic, 5, first_index=100)
    rows = our_rows(kafka, topic, end + 5)
    assert [offset for offset, *_ in rows] == list(range(end, end + 5))


def test_a_compacted_topic_with_gaps_and_empty_batches(kafka: KafkaCluster, topic: str) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": 1 << 20,
        "min.cleanable.dirty.ratio": 0.01,
        "delete.retention.ms": 0,
    }
    kafka.create_topic(topic, config=config)
    # Each producer's last batch stays when all its records are gone: Kafka keeps its sequence number in an empty one.
    for first in range(0, 50, 10):
        fill(kafka.bootstrap_servers, topic, 10, first_index=first, key=lambda i: b"key-%d" % (i % 10))
    fill(kafka.bootstrap_servers, topic, 4000, first_index=50, value_size=1000, key=lambda i: b"key-%d" % (i % 10))
    end = kafka.admin.end_offsets(topic)[0]
    assert end == 4050

    def cleaned() -> bool:
        stored = batches(kafka, topic)
        return any(batch.count == 0 for batch in stored) and sum(batch.count for batch in stored) < 3000

    eventually(cleaned, 60.0, lambda: f"compaction: {batches(kafka, topic)[:20]}")
    rows = our_rows(kafka, topic, end)
    assert len(rows) < 3000
    assert rows[-1][0] == end - 1
    # Compaction may go on between the two reads; what both have seen must be the same, and the last of each key is in.
    theirs = {row[0]: row for row in foreign_rows(kafka, topic, end)}
    ours = {row[0]: row for row in rows}
    assert set(theirs) <= set(ours)
    assert all(ours[offset] == row for offset, row in theirs.items())
    assert {key for _, _, key, _ in rows} == {b"key-%d" % i for i in range(10)}
    assert all(value == value_of(offset, 1000 if offset >= 50 else 100) for offset, _, _, value in rows)


def test_a_record_of_twenty_megabytes(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    size = 20 * 1000 * 1000
    fill(kafka.bootstrap_servers, topic, 3)
    fill(kafka.bootstrap_servers, topic, 1, first_index=3, value_size=size)
    fill(kafka.bootstrap_servers, topic, 3, first_index=4)
    rows = our_rows(kafka, topic, 7)
    assert [len(value or b"") for *_, value in rows] == [100, 100, 100, size, 100, 100, 100]
    assert rows[3][3] == value_of(3, size)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_headers(kafka: KafkaCluster, topic: str, codec: str) -> None:
    kafka.create_topic(topic)
    produce(kafka, topic, 100, codec=codec, headers="mixed", keys=3)
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(topic, 0, 0)])
        rows = read_to(reader, {(topic, 0): 100})[topic, 0]
    for index, row in enumerate(rows):
        assert row.headers == (
            ("index", b"%d" % index),
            ("twice", b"\x01"),
            ("twice", b"\x02"),
            ("null", None),
            ("empty", b""),
            ("", b"\x03"),
            ("Käfer", b"Gregor"),
        )


def test_null_keys_and_values_are_not_empty_ones(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    pairs: list[tuple[bytes | None, bytes | None]] = [(None, None), (b"", b""), (None, b""), (b"", None), (b"k", b"v")]
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for key, value in pairs:
        producer.produce(topic, value=value, key=key, partition=0)
    assert producer.flush(30.0) == 0
    assert [(key, value) for *_, key, value in our_rows(kafka, topic, len(pairs))] == pairs


def test_log_append_time(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    fill(kafka.bootstrap_servers, topic, 500, timestamp=lambda i: 1_000_000 + i)
    rows = our_rows(kafka, topic, 500)
    after = int(time.time() * 1000)
    assert all(before <= timestamp <= after for _, timestamp, *_ in rows)
    assert rows == foreign_rows(kafka, topic, 500)


def test_old_far_apart_and_falling_timestamps(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, config={"message.timestamp.after.max.ms": (1 << 63) - 1})
    # Deltas beyond 32 bits within one batch, in both directions.
    times = [1, 4_000_000_000_000, 2, 253_402_300_799_000, 3]
    fill(kafka.bootstrap_servers, topic, 500, timestamp=lambda i: times[i % 5])
    rows = our_rows(kafka, topic, 500)
    assert rows == foreign_rows(kafka, topic, 500)
    assert [timestamp for _, timestamp, *_ in rows] == [times[i % 5] for i in range(500)]
