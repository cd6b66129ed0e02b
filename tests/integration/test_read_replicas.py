"""Reading from the follower in the consumer's rack (KIP-392), and from the leader when the follower fails."""

from __future__ import annotations

import logging
import signal
from collections import Counter
from collections.abc import Iterator

import confluent_kafka
import pytest

import grete
from grete.client import Consumer, Producer
from tests.integration.app_in_process import running
from tests.kafka import KafkaCluster, eventually, new_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

RACKS = {1: "a", 2: "b", 3: "c"}
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
PARTITIONS = 6


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    properties = {"replica.selector.class": SELECTOR, "broker.rack": ",".join(RACKS.values())}
    with new_cluster(nodes=3, properties=properties) as cluster:
        yield cluster


def settings(kafka: KafkaCluster, rack: str, **others: str) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers, "client.rack": rack, **others}


def write(kafka: KafkaCluster, topic: str, first: int, count: int) -> set[str]:
    values = {f"v{number}" for number in range(first, first + count)}
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for number, value in enumerate(sorted(values)):
            producer.produce(topic, value.encode(), partition=number % PARTITIONS)
        producer.flush()
    return values


class Reader:
    """A low-level consumer of a topic, from its beginning."""

    def __init__(self, kafka: KafkaCluster, topic: str, rack: str, **others: str) -> None:
        self.consumer = Consumer(settings(kafka, rack, **{"group.id": f"{topic}-{rack}", **others}))
        self.consumer.subscribe([topic])
        self.seen = Counter[str]()

    def read(self, values: set[str]) -> None:
        def all_seen() -> bool:
            self.seen.update((message.value or b"").decode() for message in self.consumer.poll(0.2))
            return set(self.seen) >= values

        eventually(all_seen, 60, lambda: f"{len(self.seen)} of {len(values)}: {self.consumer.statistics()}")
        assert set(self.seen.values()) == {1}, "no record twice"

    def sources(self) -> set[int | None]:
        return {lane["source"] for lane in self.consumer.statistics()["partitions"]}


def test_records_come_from_the_broker_in_the_rack(kafka: KafkaCluster) -> None:
    kafka.create_topic("near", PARTITIONS)
    written = write(kafka, "near", 0, 600)
    leaders = set(kafka.admin.leaders("near").values())
    assert leaders == set(RACKS), "each broker leads"
    for node, rack in RACKS.items():
        reader = Reader(kafka, "near", rack)
        with reader.consumer:
            reader.read(written)
            more = write(kafka, "near", len(written), 60)
            written |= more
            reader.read(written)
            assert reader.sources() == {node}
    reader = Reader(kafka, "near", "elsewhere")
    with reader.consumer:
        reader.read(written)
        assert reader.sources() == leaders, "leaders are read where no broker is near"


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP])
def test_a_follower_that_dies_or_hangs_is_replaced_by_the_leaders(
    kafka: KafkaCluster, sig: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "grete")
    topic = f"lost-{sig.name}"
    kafka.create_topic(topic, PARTITIONS)
    written = write(kafka, topic, 0, 600)
    # A request to a broker that hangs ends after this time.
    reader = Reader(kafka, topic, "c", **{"request.timeout.ms": "5000"})
    with reader.consumer:
        reader.read(written)
        eventually(lambda: reader.sources() == {3}, 10, lambda: f"{reader.sources()}")
        kafka.kill(3, sig)
        try:
            # The leaders of a third of the partitions are away, too.
            eventually(lambda: 3 not in kafka.admin.leaders(topic).values(), 60, "leaders on the other brokers")
            written |= write(kafka, topic, len(written), 600)
            reader.read(written)
            assert reader.sources() <= {1, 2, 3}
        finally:
            if sig == signal.SIGSTOP:
                kafka.kill(3, signal.SIGCONT)
            else:
                kafka.start(3)
    if sig == signal.SIGKILL:
        assert any("does not answer; the partitions are read from their leaders" in line for line in caplog.messages)
    eventually(lambda: set(kafka.admin.leaders(topic).values()) <= set(RACKS), 60, "leaders")


def test_an_app_and_a_foreign_consumer_read_from_their_racks(kafka: KafkaCluster) -> None:
    kafka.create_topic("both", PARTITIONS)
    written = write(kafka, "both", 0, 300)
    seen = Counter[str]()
    app = grete.App("near-app", kafka=settings(kafka, "b"), group="near-app")

    @app.consumer("both")
    class Near(grete.Consumer):
        def consume(self) -> None:
            seen.update((message.value or b"").decode() for message in self.messages)

    with running(app):
        eventually(lambda: set(seen) >= written, 60, lambda: f"{len(seen)} of {len(written)}")
        assert {lane["source"] for lane in app.statistics()["lanes"]} == {2}

    options: dict[str, str | int | float | bool] = {
        **settings(kafka, "b", **{"group.id": "foreign", "auto.offset.reset": "earliest"})
    }
    foreign = confluent_kafka.Consumer(options)
    foreign.subscribe(["both"])
    found = set[str]()
    try:

        def all_found() -> bool:
            found.update((m.value() or b"").decode() for m in foreign.consume(100, 0.2) if m.error() is None)
            return found >= written

        eventually(all_found, 60, lambda: f"{len(found)} of {len(written)}")
    finally:
        foreign.close()


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range", "sticky"])
def test_members_of_a_group_get_what_is_in_their_rack(kafka: KafkaCluster, assignor: str) -> None:
    """Each partition has one replica, so that the rack of a member decides whether it reads from there (KIP-881)."""
    topic = f"assigned-{assignor}"
    kafka.create_topic(topic, PARTITIONS, replication=1, config={"min.insync.replicas": 1})
    leaders = kafka.admin.leaders(topic)
    assert sorted(leaders.values()) == [1, 1, 2, 2, 3, 3], "two partitions on each broker"
    written = write(kafka, topic, 0, 300)
    options = {"group.id": topic, "group.protocol": "classic", "partition.assignment.strategy": assignor}
    readers = {node: Reader(kafka, topic, rack, **options) for node, rack in reversed(RACKS.items())}

    def each_has_its_own() -> bool:
        for reader in readers.values():
            reader.seen.update((message.value or b"").decode() for message in reader.consumer.poll(0.1))
        near = {node: [p for p, leader in leaders.items() if leader == node] for node in readers}
        held = {
            node: sorted(partition for _, partition in reader.consumer.assignment()) for node, reader in readers.items()
        }
        return held == near and set[str]().union(*(reader.seen for reader in readers.values())) == written

    def each_reads_its_own() -> bool:
        # A member that has got a partition after all of its records were read has no source yet.
        nonlocal written
        written |= write(kafka, topic, len(written), 2 * PARTITIONS)
        eventually(each_has_its_own, 60, lambda: f"{[r.consumer.statistics() for r in readers.values()]}")
        return {node: reader.sources() for node, reader in readers.items()} == {node: {node} for node in readers}

    try:
        eventually(each_reads_its_own, 60, lambda: f"{[reader.sources() for reader in readers.values()]}")
    finally:
        for reader in readers.values():
            reader.consumer.close()


def test_leaders_that_move_name_the_follower_again(kafka: KafkaCluster) -> None:
    kafka.create_topic("moving", PARTITIONS)
    written = write(kafka, "moving", 0, 300)
    reader = Reader(kafka, "moving", "a")
    with reader.consumer:
        reader.read(written)
        for _ in range(2):
            kafka.kill(2)
            eventually(lambda: 2 not in kafka.admin.leaders("moving").values(), 60, "leaders on 1 and 3")
            written |= write(kafka, "moving", len(written), 300)
            reader.read(written)
            kafka.start(2)

        def near_again() -> bool:
            nonlocal written
            written |= write(kafka, "moving", len(written), PARTITIONS)
            reader.read(written)
            return reader.sources() == {1}

        eventually(near_again, 60, lambda: f"{reader.consumer.statistics()}")
