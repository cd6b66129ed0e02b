"""Histories of deduplication that cannot be read: which partitions wait, for how long, and what says so."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import grete
from grete.broker import Broker
from tests.integration.app_in_process import running
from tests.integration.test_failed_partitions import address, events, lane, problem
from tests.kafka import eventually
from tests.unit.probe_client import send_probe

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]
TOPIC, GROUP = "orders", "payments"
# Broker 1 leads partition 0, and broker 2 the others.
PARTITIONS = 9
# Seconds that a partition may wait for a broker that does not lead it: one lookup. The rest is for a slow machine.
BOUND = 20.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Each partition has a committed record with the id "a", then one with the same id and one with another."""
    with Broker(brokers=2, topics={TOPIC: PARTITIONS}) as broker:
        for partition in range(PARTITIONS):
            broker.move_leader(TOPIC, partition, to=1 if partition == 0 else 2)
        write(broker, "a")
        seen: Counter[tuple[int, bytes]] = Counter()
        with running(reader(broker, seen)):
            eventually(lambda: len(committed(broker)) == PARTITIONS, 60.0, lambda: f"{seen} {committed(broker)}")
        write(broker, "a", "b")
        yield broker


def write(broker: Broker, *ids: str) -> None:
    """One record with each id in each partition; the value is the id."""
    with grete.client.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for partition in range(PARTITIONS):
            for name in ids:
                producer.produce(TOPIC, name.encode(), headers=[("id", name.encode())], partition=partition)


def committed(broker: Broker, group: str = GROUP) -> dict[int, int]:
    return {partition: offset for (_, partition), offset in broker.committed(group).items()}


def reader(broker: Broker, seen: Counter[tuple[int, bytes]], **settings: Any) -> grete.App:
    """An App that counts what it processes, by partition and value."""
    kafka = {"bootstrap.servers": broker.bootstrap_servers, "auto.commit.interval.ms": 200}
    app = grete.App(GROUP, kafka=kafka, workers=2, **settings)

    @app.consumer(TOPIC, dedup="header:id")
    def take(message: grete.Message) -> None:
        seen[message.partition, message.value or b""] += 1

    return app


def all_processed(broker: Broker, seen: Counter[tuple[int, bytes]]) -> bool:
    """Whether each partition is committed to its end, and the second "a" was left out."""
    done = committed(broker) == dict.fromkeys(range(PARTITIONS), 3)
    return done and seen == Counter((partition, b"b") for partition in range(PARTITIONS))


def waiting(heard: list[dict[str, Any]]) -> set[int]:
    return {one["partition"] for one in heard}


def test_a_broker_that_does_not_answer_delays_its_own_partitions_only(broker: Broker) -> None:
    broker.never_answer("ListOffsets", broker=2)
    seen: Counter[tuple[int, bytes]] = Counter()
    probes = address()
    app = reader(broker, seen, probes=probes)
    heard = events(app, "consumer.dedup_waits")
    with running(app):
        started = time.monotonic()
        eventually(lambda: seen[0, b"b"] == 1, 60.0, "the partition of the other broker")
        assert time.monotonic() - started < BOUND
        others = set(range(1, PARTITIONS))
        eventually(lambda: waiting(heard) == others, BOUND, lambda: f"the event of each other partition: {heard}")
        assert {(one["topic"], one["offset"]) for one in heard} == {(TOPIC, 1)}
        assert all(one["error"] for one in heard)
        assert set(seen) == {(0, b"b")}
        stuck = lane(app, 5)
        assert (stuck["state"], stuck["reason"]) == ("failed", "dedup_history")
        assert "before offset 1" in stuck["error"]
        ready = send_probe(probes, "/readyz")
        assert ready.status == 503
        assert problem(ready)["failure"] == "dedup_history"
        broker.heal()
        eventually(lambda: all_processed(broker, seen), 60.0, lambda: f"{seen} {committed(broker)}")
        eventually(lambda: send_probe(probes, "/readyz").status == 200, 10.0, "readiness")


def test_records_that_do_not_come_delay_their_own_partitions_only(broker: Broker) -> None:
    broker.never_answer("Fetch", broker=2)
    seen: Counter[tuple[int, bytes]] = Counter()
    app = reader(broker, seen)
    heard = events(app, "consumer.dedup_waits")
    with running(app):
        started = time.monotonic()
        eventually(lambda: seen[0, b"b"] == 1, 60.0, "the partition of the other broker")
        assert time.monotonic() - started < BOUND
        eventually(lambda: waiting(heard) == set(range(1, PARTITIONS)), BOUND, lambda: f"each other partition: {heard}")
        broker.heal()
        eventually(lambda: all_processed(broker, seen), 90.0, lambda: f"{seen} {committed(broker)}")


# The lookups are those of the first offsets, of the ends, and of the start of the window.
@pytest.mark.parametrize(("api", "skip"), [("ListOffsets", 0), ("ListOffsets", 4), ("Fetch", 0)])
def test_an_error_of_one_partition_stays_with_it_and_ends_no_thread(broker: Broker, api: str, skip: int) -> None:
    broker.fail(api, "TOPIC_AUTHORIZATION_FAILED", partition=3, skip=skip)
    seen: Counter[tuple[int, bytes]] = Counter()
    app = reader(broker, seen)
    with running(app):
        others = {(partition, b"b") for partition in range(PARTITIONS) if partition != 3}
        eventually(lambda: set(seen) >= others, 60.0, lambda: f"the other partitions: {seen}")
        broker.heal()
        eventually(lambda: all_processed(broker, seen), 60.0, lambda: f"{seen} {committed(broker)}")


def test_two_groups_of_an_app_read_the_history_of_the_same_partitions(broker: Broker) -> None:
    seen: Counter[tuple[int, bytes]] = Counter()
    other: Counter[int] = Counter()
    lock = threading.Lock()
    ends = dict.fromkeys(range(PARTITIONS), 3)
    for _ in range(2):
        app = reader(broker, seen)

        @app.consumer(TOPIC, group="audit", dedup="header:id")
        def audit(message: grete.Message) -> None:
            with lock:
                other[message.partition] += 1

        with running(app):
            eventually(lambda: committed(broker, "audit") == ends, 60.0, lambda: f"{committed(broker, 'audit')}")
            eventually(lambda: all_processed(broker, seen), 60.0, lambda: f"{seen} {committed(broker)}")
    assert other == dict.fromkeys(range(PARTITIONS), 2)
