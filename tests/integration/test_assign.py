"""Partitions read from where one says: an offset, an end, a time, the committed offset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

import grete
from tests.integration.topic_reader import consumer, offsets, read_to, take
from tests.kafka import KafkaCluster, eventually, fill, new_cluster, value_of

pytestmark = pytest.mark.kafka
Where = int | Literal["earliest", "latest"] | datetime
START = datetime(2024, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def dated(kafka: KafkaCluster) -> str:
    """100 records in one partition, one second apart from START on."""
    kafka.create_topic("dated")
    first = int(START.timestamp() * 1000)
    fill(kafka.bootstrap_servers, "dated", 100, timestamp=lambda i: first + 1000 * i)
    return "dated"


@pytest.mark.parametrize(
    ("where", "first"),
    [
        (0, 0),
        (40, 40),
        (99, 99),
        ("earliest", 0),
        (START, 0),
        (START + timedelta(seconds=30), 30),
        # Between two records: the later one.
        (START + timedelta(seconds=30, milliseconds=1), 31),
        (START - timedelta(days=1), 0),
    ],
    ids=str,
)
def test_starts_at_the_given_offset(kafka: KafkaCluster, dated: str, where: Where, first: int) -> None:
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(dated, 0, where)])
        rows = read_to(reader, {(dated, 0): 100})[dated, 0]
    assert offsets(rows) == list(range(first, 100))
    assert [row.value for row in rows] == [value_of(i, 100) for i in range(first, 100)]
    assert [row.timestamp for row in rows] == [int(START.timestamp() * 1000) + 1000 * i for i in range(first, 100)]
    assert {(row.topic, row.partition, row.key, row.headers) for row in rows} == {(dated, 0, None, ())}


@pytest.mark.parametrize("where", ["latest", 100, START + timedelta(days=1)], ids=str)
def test_starts_at_the_end(kafka: KafkaCluster, topic: str, where: Where) -> None:
    kafka.create_topic(topic)
    first = int(START.timestamp() * 1000)
    fill(kafka.bootstrap_servers, topic, 100, timestamp=lambda i: first + i)
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(topic, 0, where)])

        def at_the_end() -> bool:
            assert not len(reader.poll(timeout=0.05))
            return bool(reader.position(topic, 0) == 100)

        eventually(at_the_end, 15.0, "position 100")
        fill(kafka.bootstrap_servers, topic, 10, first_index=100, timestamp=lambda i: first + i)
        rows = read_to(reader, {(topic, 0): 110})[topic, 0]
    assert offsets(rows) == list(range(100, 110))


def test_starts_at_the_offset_that_a_foreign_client_committed(kafka: KafkaCluster, dated: str, group: str) -> None:
    foreign = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})

    def committed() -> bool:
        # The first commit of all creates the broker's offsets topic, and librdkafka gives up while that lasts.
        try:
            foreign.commit(offsets=[TopicPartition(dated, 0, 42)], asynchronous=False)
        except KafkaException:
            return False
        return True

    eventually(committed, 30.0, "the foreign commit")
    foreign.close()
    with consumer(kafka.bootstrap_servers, group_id=group) as reader:
        reader.assign([(dated, 0, None)])
        rows = read_to(reader, {(dated, 0): 100})[dated, 0]
    assert offsets(rows) == list(range(42, 100))


def test_what_it_commits_a_foreign_client_reads(kafka: KafkaCluster, dated: str, group: str) -> None:
    with consumer(kafka.bootstrap_servers, group_id=group) as reader:
        reader.assign([(dated, 0, 0)])
        messages = eventually(lambda: reader.poll(timeout=1.0, max_messages=10), 15.0, "records")
        reader.commit(messages)
        assert kafka.admin.committed(group) == {(dated, 0): messages.last_offset + 1}


def test_goes_where_seek_says(kafka: KafkaCluster, dated: str) -> None:
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(dated, 0, 0)])
        assert offsets(read_to(reader, {(dated, 0): 100})[dated, 0])[-1] == 99
        reader.seek(dated, 0, 90)
        again = read_to(reader, {(dated, 0): 100})[dated, 0]
        assert offsets(again) == list(range(90, 100))


def test_a_paused_partition_gives_nothing_and_the_others_go_on(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(topic, 0, 0), (topic, 1, 0)])
        reader.pause([(topic, 0)])
        fill(kafka.bootstrap_servers, topic, 2000, partitions=2)
        rows = read_to(reader, {(topic, 1): 1000})
        assert (topic, 0) not in rows
        reader.resume([(topic, 0)])
        rows = read_to(reader, {(topic, 0): 1000})
        assert offsets(rows[topic, 0]) == list(range(1000))


def test_an_offset_out_of_range_is_reset(kafka: KafkaCluster, dated: str) -> None:
    with consumer(kafka.bootstrap_servers, auto_offset_reset="earliest") as reader:
        reader.assign([(dated, 0, 5000)])
        rows: dict[tuple[str, int], list[grete.Message]] = {}
        eventually(lambda: take(reader, rows, 0.25), 15.0, "records after the reset")
    assert rows[dated, 0][0].offset == 0


def test_columns_say_the_same_as_rows(kafka: KafkaCluster, dated: str) -> None:
    import polars
    import pyarrow

    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(dated, 0, 0)])
        messages = eventually(lambda: reader.poll(timeout=1.0), 15.0, "records")
    count = len(messages)
    assert messages.values() == [message.value for message in messages] == [value_of(i, 100) for i in range(count)]
    assert messages.keys() == [None] * count
    assert list(messages.offsets) == [message.offset for message in messages] == list(range(count))
    assert list(messages.timestamps) == [message.timestamp for message in messages]
    array = pyarrow.array(messages)
    assert array.field("value").to_pylist() == messages.values()
    assert array.field("offset").to_pylist() == list(range(count))
    frame = polars.DataFrame(messages)
    assert frame["value"].to_list() == messages.values()
    assert frame["timestamp"].dt.epoch("ms").to_list() == list(messages.timestamps)


def test_many_partitions_on_three_nodes() -> None:
    with new_cluster(nodes=3) as cluster:
        cluster.create_topic("wide", partitions=24)
        fill(cluster.bootstrap_servers, "wide", 24_000, partitions=24)
        with consumer(cluster.bootstrap_servers) as reader:
            reader.assign([("wide", partition, 0) for partition in range(24)])
            rows = read_to(reader, {("wide", partition): 1000 for partition in range(24)})
    for partition in range(24):
        expected = [value_of(partition + 24 * i, 100) for i in range(1000)]
        assert [row.value for row in rows["wide", partition]] == expected
