"""The judges of what a producer writes: they agree about sound topics, and each finds what it is there to find."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

from tests.kafka import KafkaCluster, fill, new_cluster, value_of
from tests.kafka.dump import dump
from tests.kafka.foreign_readers import Headers, Row, judges, sequences
from tests.kafka.java import partitions_of
from tests.kafka.stored_batches import CODECS

pytestmark = pytest.mark.kafka
HEADERS: Headers = (("twice", b"1"), ("twice", b"2"), ("null", None), ("empty", b""), ("", b"x"), ("Käfer", b"\0\xff"))


@pytest.mark.parametrize("codec", CODECS)
def test_the_judges_agree(kafka: KafkaCluster, topic: str, codec: str) -> None:
    kafka.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec, "linger.ms": 50})
    shapes = [(None, None), (b"", b""), (b"key", value_of(1, 100)), (b"k" * 300, value_of(2, 9000)), (None, b"\0")]
    expected = []
    for at in range(100):
        key, value = shapes[at % 5]
        headers = HEADERS if at % 3 else ()
        row = Row(at % 2, at // 2, 1_700_000_000_000 + at, key, Row.digest(value), headers)
        expected.append(row)
        producer.produce(topic, value, key, row.partition, timestamp=row.timestamp, headers=list(headers))
    assert producer.flush(30.0) == 0
    expected.sort(key=lambda row: (row.partition, row.offset))
    for name, read in judges(kafka).items():
        assert read(kafka, topic) == expected, name
    dumped = dump(kafka, topic)
    # librdkafka sends a batch uncompressed that compression does not make smaller.
    assert codec in {batch.codec for batch in dumped} <= {codec, "none"}
    for partition in (0, 1):
        offsets = [offset for batch in dumped if batch.partition == partition for offset in batch.records]
        assert offsets == list(range(50))


def test_the_sequence_judge_finds_what_is_missing_twice_and_out_of_order(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 1000, partitions=2)
    sound = {"count": 500, "distinct": 500, "falls": 0, "strays": 0, "twice": [], "missing": []}
    assert sequences(kafka, topic) == [{"partition": at, **sound} for at in (0, 1)]
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    # 1000 is left out, 1002 comes twice, 1004 late, and 1007 where it does not belong.
    for index in (1002, 1002, 1006, 1004, 1007):
        producer.produce(topic, value_of(index, 20), partition=0)
    assert producer.flush(30.0) == 0
    spoiled = sequences(kafka, topic)
    counts = {"count": 505, "distinct": 503, "falls": 2, "strays": 1, "twice": [1002], "missing": [1000]}
    assert spoiled == [{"partition": 0, **counts}, {"partition": 1, **sound}]


@pytest.mark.apache("the dump reads the broker's files")
def test_the_dump_finds_a_flipped_bit() -> None:
    with new_cluster() as kafka:
        kafka.create_topic("orders")
        fill(kafka.bootstrap_servers, "orders", 100)
        assert sum(batch.count for batch in dump(kafka, "orders")) == 100
        (segment,) = (kafka.nodes[1].directory / "data" / "orders-0").glob("*.log")
        data = bytearray(segment.read_bytes())
        data[data.index(value_of(50, 100)) + 50] ^= 1
        segment.write_bytes(data)
        with pytest.raises((AssertionError, RuntimeError), match=r"isvalid: false|corrupt"):
            dump(kafka, "orders")


@pytest.mark.apache("Kafka's own producer")
def test_java_reports_where_it_puts_keys(kafka: KafkaCluster) -> None:
    source = random.Random(3)
    keys = [b"", b"21", b"foobar", *(source.randbytes(source.randrange(40)) for _ in range(1000))]
    rows = partitions_of(kafka, keys, [1, 7, 100])
    assert len(rows) == len(keys)
    assert all(one == 0 and 0 <= seven < 7 and 0 <= hundred < 100 for one, seven, hundred in rows)
    # Known from Kafka's own UtilsTest: murmur2 of "21" and "foobar" is -973932308 and -790332482.
    assert rows[1] == [0, (-973932308 & 0x7FFFFFFF) % 7, (-973932308 & 0x7FFFFFFF) % 100]
    assert rows[2] == [0, (-790332482 & 0x7FFFFFFF) % 7, (-790332482 & 0x7FFFFFFF) % 100]
