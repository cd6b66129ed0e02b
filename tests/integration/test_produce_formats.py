"""What Grete writes, others read: three foreign consumers, and the broker's own tool over the files."""

from __future__ import annotations

import random
import time

import pytest

import grete
from tests.integration.producers import producer as make
from tests.kafka import KafkaCluster, value_of
from tests.kafka.dump import dump
from tests.kafka.foreign_readers import Headers, Row, judges, read_by_librdkafka
from tests.kafka.java import partitions_of
from tests.kafka.stored_batches import CODECS

pytestmark = pytest.mark.kafka
START = 1_700_000_000_000
HEADERS: Headers = (
    ("twice", b"1"),
    ("other", b"\0\xff" * 40),
    ("twice", b"2"),
    ("null", None),
    ("empty", b""),
    ("", b"x"),
    ("Käfer", b"G"),
)
SHAPES: list[tuple[bytes | None, bytes | None]] = [
    (None, None),
    (b"", b""),
    (None, b""),
    (b"", None),
    (b"key", None),
    (b"key", value_of(3, 100)),
    (b"k" * 300, value_of(4, 9000)),
    (None, value_of(5, 70_000)),
    (b"\0\xff", b"\0"),
]


def mixed(count: int, partitions: int) -> list[Row]:
    """Rows of every shape, dealt out in turn; timestamps go up and down within a batch."""
    rows = []
    for index in range(count):
        key, value = SHAPES[index % len(SHAPES)]
        at = START + (index * 7919) % 100_003 - 50_000
        rows.append(Row(index % partitions, index // partitions, at, key, value, HEADERS if index % 4 else ()))
    return rows


def check(kafka: KafkaCluster, topic: str, expected: list[Row], codec: str) -> None:
    """All judges find these rows, and DumpLogSegments has nothing to say against the files."""
    digested = [
        Row(row.partition, row.offset, row.timestamp, row.key, Row.digest(row.value), row.headers)
        for row in sorted(expected, key=lambda row: (row.partition, row.offset))
    ]
    for name, read in judges(kafka).items():
        assert read(kafka, topic) == digested, name
    dumped = dump(kafka, topic)
    # A batch that a codec would only make larger goes as it is.
    assert codec in {batch.codec for batch in dumped} <= {codec, "none"}
    assert sum(len(batch.records) for batch in dumped) == len(expected)
    sequences = {(batch.partition, batch.producer_id): 0 for batch in dumped}
    assert len({producer for _, producer in sequences}) == 1
    for batch in dumped:
        at = (batch.partition, batch.producer_id)
        assert batch.count == len(batch.records) == batch.last_offset - batch.base_offset + 1
        assert batch.base_sequence == sequences[at]
        sequences[at] += batch.count


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("how", ["produce", "produce_many", "produce_sync"])
def test_every_codec_and_shape(kafka: KafkaCluster, topic: str, how: str, codec: str) -> None:
    kafka.create_topic(topic, partitions=3)
    rows = mixed(60 if how == "produce_sync" else 600, 3)
    with make(kafka.bootstrap_servers, compression_type=codec, linger_ms=20) as producer:
        if how == "produce_many":
            for partition in range(3):
                mine = [row for row in rows if row.partition == partition]
                many = producer.produce_many(
                    topic, [(row.key, row.value, row.headers, row.timestamp) for row in mine], partition=partition
                )
                many.wait(30.0)
                assert [delivery.offset for delivery in many] == [row.offset for row in mine]
        else:
            send = producer.produce if how == "produce" else producer.produce_sync
            deliveries = [
                send(
                    topic,
                    row.value,
                    key=row.key,
                    partition=row.partition,
                    headers=list(row.headers),
                    timestamp=row.timestamp,
                )
                for row in rows
            ]
            producer.flush(30.0)
            reported = [(delivery.partition, delivery.offset, delivery.timestamp) for delivery in deliveries]
            # The broker has kept the records' own times, so its answer holds none.
            assert reported == [(row.partition, row.offset, None) for row in rows]
    check(kafka, topic, rows, codec)


@pytest.mark.parametrize("level", [("gzip", 1), ("gzip", 9), ("zstd", 1), ("zstd", 15)])
def test_compression_levels(kafka: KafkaCluster, topic: str, level: tuple[str, int]) -> None:
    codec, number = level
    kafka.create_topic(topic)
    with make(kafka.bootstrap_servers, compression_type=codec, compression_level=number) as producer:
        producer.produce_many(topic, [(None, value_of(index, 500), (), START) for index in range(2000)]).wait(30.0)
    check(kafka, topic, [Row(0, i, START, None, value_of(i, 500), ()) for i in range(2000)], codec)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_of_900_kilobytes(kafka: KafkaCluster, topic: str, codec: str) -> None:
    kafka.create_topic(topic, partitions=2)
    # Half of it is noise, which no codec makes smaller.
    bodies = [random.Random(index).randbytes(450_000) + bytes(450_000) for index in range(12)]
    with make(kafka.bootstrap_servers, compression_type=codec) as producer:
        for index, body in enumerate(bodies):
            producer.produce(topic, body, partition=index % 2, timestamp=START)
    check(kafka, topic, [Row(i % 2, i // 2, START, None, body, ()) for i, body in enumerate(bodies)], codec)


def test_a_hundred_partitions(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=100)
    rows = [Row(index % 100, index // 100, START + index, None, b"%d" % index, ()) for index in range(3000)]
    with make(kafka.bootstrap_servers, compression_type="none") as producer:
        for row in rows:
            producer.produce(topic, row.value, partition=row.partition, timestamp=row.timestamp)
    check(kafka, topic, rows, "none")


def test_timestamps(kafka: KafkaCluster, topic: str) -> None:
    """Now, if none is given; far apart in one batch; or the broker's."""
    kafka.create_topic(topic, config={"message.timestamp.after.max.ms": (1 << 63) - 1})
    times = [0, 1, 253_402_300_799_000, 2, START]
    before = int(time.time() * 1000)
    with make(kafka.bootstrap_servers) as producer:
        given = [producer.produce(topic, b"x", timestamp=at) for at in times]
        now = producer.produce(topic, b"now")
    after = int(time.time() * 1000)
    assert [delivery.offset for delivery in given] == [0, 1, 2, 3, 4]
    (*_, last) = read_by_librdkafka(kafka, topic)
    assert last.offset == now.offset
    assert before <= last.timestamp <= after
    check(kafka, topic, [*(Row(0, i, at, None, b"x", ()) for i, at in enumerate(times)), last], "none")


def test_log_append_time(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    with make(kafka.bootstrap_servers) as producer:
        delivery = producer.produce_sync(topic, b"x", timestamp=START, timeout=30.0)
    assert delivery.timestamp is not None
    # The broker's clock is not this process'.
    assert before - 1000 <= delivery.timestamp <= time.time() * 1000 + 1000
    for name, read in judges(kafka).items():
        assert [row.timestamp for row in read(kafka, topic)] == [delivery.timestamp], name


def test_values_may_be_anything_like_bytes(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    likes: list[bytes | bytearray | memoryview] = [b"abcd", bytearray(b"abcd"), memoryview(b"abcd")]
    with make(kafka.bootstrap_servers) as producer:
        for like in likes:
            producer.produce(topic, like, key=like, headers=[("h", like)], timestamp=START)
        changing = bytearray(b"abcd")
        producer.produce(topic, changing, key=b"abcd", headers=[("h", b"abcd")], timestamp=START)
        # What was handed over is a copy.
        changing[:] = b"\0\0\0\0"
    check(kafka, topic, [Row(0, at, START, b"abcd", b"abcd", (("h", b"abcd"),)) for at in range(4)], "none")


def test_what_was_read_can_be_written_again(kafka: KafkaCluster, topic: str) -> None:
    """`produce_many` takes `Messages` as they are: keys, values, headers and timestamps."""
    source, copy = f"{topic}-source", f"{topic}-copy"
    for name in (source, copy):
        kafka.create_topic(name)
    rows = mixed(200, 1)
    with make(kafka.bootstrap_servers) as producer:
        producer.produce_many(source, [(row.key, row.value, row.headers, row.timestamp) for row in rows]).wait(30.0)
        count = 0
        with grete.client.Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as reader:
            reader.assign([(source, 0, 0)])
            while count < 200:
                messages = reader.poll(timeout=10.0)
                assert len(messages)
                producer.produce_many(copy, messages, partition=0).wait(30.0)
                count += len(messages)
    check(kafka, copy, rows, "none")


@pytest.mark.apache("Kafka's own producer says where they land")
def test_keys_land_where_java_puts_them(kafka: KafkaCluster, topic: str) -> None:
    """P42: 10,000 keys of all lengths and bytes, over four counts of partitions."""
    counts = (1, 7, 12, 100)
    seed = time.time_ns() % 1_000_000
    print(f"seed {seed}")
    source = random.Random(seed)
    keys = [source.randbytes(source.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 31, 200))) for _ in range(10_000)]
    java = partitions_of(kafka, keys, counts)
    with make(kafka.bootstrap_servers) as producer:
        for at, count in enumerate(counts):
            name = f"{topic}-{count}"
            kafka.create_topic(name, partitions=count)
            singles = [producer.produce(name, b"", key=key) for key in keys[:5000]]
            many = producer.produce_many(name, [(key, b"") for key in keys[5000:]])
            producer.flush(60.0)
            placed = [delivery.partition for delivery in (*singles, *many)]
            assert placed == [row[at] for row in java]
    # And so they lie in the log, as a foreign consumer sees it.
    found = {(row.key, row.partition) for row in read_by_librdkafka(kafka, f"{topic}-100")}
    assert found == {(key, row[3]) for key, row in zip(keys, java, strict=True)}


def test_a_partitioner_of_ones_own(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=5)
    asked: list[tuple[str, bytes | None, int]] = []

    def last(name: str, key: bytes | None, count: int) -> int:
        asked.append((name, key, count))
        return count - 1

    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    with grete.client.Producer(settings, partitioner=last) as producer:
        assert producer.produce_sync(topic, b"", key=b"k", timeout=30.0).partition == 4
        assert producer.produce_sync(topic, b"", partition=1, timeout=30.0).partition == 1
        many = producer.produce_many(topic, [(b"a", b""), (None, b"")])
        many.wait(30.0)
        assert [delivery.partition for delivery in many] == [4, 4]
    assert asked == [(topic, b"k", 5), (topic, b"a", 5), (topic, None, 5)]


def test_without_a_key_all_partitions_get_their_share(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=6)
    with make(kafka.bootstrap_servers, batch_size=16_384, linger_ms=0) as producer:
        for index in range(60_000):
            producer.produce(topic, value_of(index, 100))
    shares = kafka.admin.end_offsets(topic)
    assert sum(shares.values()) == 60_000
    print(shares)
    assert min(shares.values()) > 60_000 / 6 / 3
