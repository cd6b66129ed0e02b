"""Brokers die, hang and stop, leaders move, and what is produced meanwhile arrives once and in order."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

import grete
from tests.integration.broker_moves import BrokerMoves, plan
from tests.integration.ordered_load import OrderedLoad
from tests.integration.producers import values
from tests.kafka import KafkaCluster, eventually, new_cluster
from tests.kafka.java import judge
from tests.kafka.stored_batches import assert_sequences, batches

pytestmark = pytest.mark.kafka
PARTITIONS = 6
# A broker that hangs is given up after request.timeout.ms; the other limits are left as they are.
SETTINGS = {"acks": "all", "enable.idempotence": True, "request.timeout.ms": 5000}


def produce_through(kafka: KafkaCluster, topic: str, blows: list[tuple[str, int, float]], count: int) -> None:
    """`count` records with a slice of them around each blow; read back by Kafka's own consumer."""
    slice_of = count // len(blows)
    kafka.create_topic(topic, partitions=PARTITIONS)
    moves = BrokerMoves(kafka, [topic])
    producer = grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers, **SETTINGS})
    started = time.monotonic()
    with producer, OrderedLoad(producer, topic, PARTITIONS) as load:
        for number, (kind, node, when) in enumerate(blows):
            begin, end = number * slice_of, (number + 1) * slice_of
            load.allow(end)
            load.wait_sent(begin + int(slice_of * when / 2), 60.0)
            moves.move_leaders()
            load.wait_sent(begin + int(slice_of * when), 60.0)
            moves.blow(kind, node)
            # All of this slice gets through without the node.
            load.wait_settled(end, 90.0)
            print(f"{time.monotonic() - started:7.1f} s: {load.outcomes.total()} records, {kind} node {node}")
            moves.undo()
        load.allow(count)
        total = load.finish(120.0)
    assert not load.errors, load.errors[:5]
    assert load.outcomes == {"written": total}
    assert total >= count
    print(f"{total} written, {load.unknown_offsets} of them without an offset, in {time.monotonic() - started:.1f} s")
    due = {"falls": 0, "strays": 0, "twice": [], "missing": []}
    each = total // PARTITIONS
    assert judge(kafka, topic, "sequence", seconds=300) == [
        {"partition": partition, "count": each, "distinct": each, **due} for partition in range(PARTITIONS)
    ]
    for partition in range(PARTITIONS):
        assert_sequences(batches(kafka, topic, partition))


@pytest.fixture(scope="module")
def trio() -> Iterator[KafkaCluster]:
    """Three nodes."""
    with new_cluster(nodes=3) as kafka:
        yield kafka


@pytest.mark.timeout(120)
@pytest.mark.soak
def test_four_blows(trio: KafkaCluster, topic: str) -> None:
    seed = int(os.environ.get("CHAOS_SEED", time.time_ns() % 1_000_000))
    blows = plan(seed, 4, kills=3)
    print(f"CHAOS_SEED={seed} {blows}")
    produce_through(trio, topic, blows, 300_000)


@pytest.mark.timeout(120)
def test_synchronous_sends_while_the_leader_moves(trio: KafkaCluster, topic: str) -> None:
    """Each returns when its record is written, by whichever leader; none is written twice."""
    trio.create_topic(topic)
    moves = BrokerMoves(trio, [topic])
    enough, count, longest = threading.Event(), 0, 0.0

    def send() -> None:
        nonlocal count, longest
        while not enough.is_set():
            started = time.monotonic()
            delivery = producer.produce_sync(topic, b"%d" % count, timeout=60.0)
            longest = max(longest, time.monotonic() - started)
            assert delivery.offset in (count, None)
            count += 1

    def goes_on() -> None:
        goal = count + 50
        eventually(lambda: count >= goal or not sender.is_alive(), 60.0, lambda: f"{goal} records, {count} so far")
        assert sender.is_alive()

    with grete.client.Producer({"bootstrap.servers": trio.bootstrap_servers, **SETTINGS}) as producer:
        sender = threading.Thread(target=send)
        sender.start()
        try:
            for _ in range(2):
                goes_on()
                moves.blow("stop", trio.admin.leaders(topic)[0])
                goes_on()
                moves.undo()
                moves.move_leaders()
            goes_on()
        finally:
            enough.set()
            sender.join(90.0)
    print(f"{count} records, one took {longest:.2f} s")
    assert values(trio, topic) == [b"%d" % index for index in range(count)]
    assert_sequences(batches(trio, topic))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_million_records_and_thirty_kills() -> None:
    seed = int(os.environ.get("CHAOS_SEED", time.time_ns() % 1_000_000))
    count = int(os.environ.get("CHAOS_RECORDS", "10_000_000"))
    blows = plan(seed, 38, kills=30)
    print(f"CHAOS_SEED={seed} {blows}")
    with new_cluster(nodes=3) as kafka:
        produce_through(kafka, "orders", blows, count)
