"""Processes that come, go and die in one group; and strangers in it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer

from tests.integration.conftest import StartRecorder
from tests.integration.continuous_producer import SteadyProducer
from tests.integration.recorder_check import Ledger
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.admin import QUIET
from tests.kafka.java import JavaConsumer

pytestmark = pytest.mark.kafka
PARTITIONS = 12


def owned(kafka: KafkaCluster, group: str, topic: str) -> list[int]:
    """How many partitions each member has, if the group is stable and all are given out; else nothing."""
    if kafka.admin.group_state(group) != "STABLE":
        return []
    shares = list(kafka.admin.members(group).values())
    everything = sorted(partition for share in shares for partition in share)
    if everything != sorted((topic, p) for p in kafka.admin.partitions(topic)):
        return []
    return sorted(len(share) for share in shares)


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
@pytest.mark.timeout(240)
def test_members_join_leave_and_die_under_load(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder, tmp_path: Path, assignor: str
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    settings = {"assignor": assignor, "session_ms": 3000, "heartbeat_ms": 300, "work": 0.002, "commit_ms": 500}

    def stable_with(members: int) -> None:
        shares = [PARTITIONS // members] * members
        eventually(lambda: owned(kafka, group, topic) == shares, 60.0, lambda: f"{members} members: {state()}")

    def state() -> str:
        return f"{kafka.admin.group_state(group)} {kafka.admin.members(group)}"

    with SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, 5000) as load:
        first = start_recorder(kafka, topic, group, **settings)
        stable_with(1)
        second = start_recorder(kafka, topic, group, **settings)
        stable_with(2)
        third = start_recorder(kafka, topic, group, **settings)
        stable_with(3)
        before_kill = Ledger(tmp_path).count
        second.process.kill()
        stable_with(2)
        # An orderly leave.
        assert third.stop() == 0, third.output
        stable_with(1)
        fourth = start_recorder(kafka, topic, group, **settings)
        stable_with(2)
        ends = load.finish()
    fourth.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
    assert first.stop() == 0, first.output
    assert fourth.stop() == 0, fourth.output

    ledger = Ledger(tmp_path)
    assert before_kill > 0
    ledger.assert_everything(ends)
    ledger.assert_checksums(PARTITIONS, 100)
    ledger.assert_one_owner_at_a_time()
    # Only what the killed process had not committed comes twice; at most what it did in one commit interval and a bit.
    killed = {batch.partition for batch in ledger.batches if batch.pid == second.pid}
    for partition, counter in ledger.times_seen().items():
        repeated = [offset for offset, times in counter.items() if times > 1]
        assert partition in killed or not repeated, f"partition {partition}: {len(repeated)} records came twice"
        assert max(counter.values()) <= 2


class ForeignMember:
    """A confluent-kafka consumer in the group, polled by a thread, that writes down what it reads."""

    def __init__(
        self, servers: str, group: str, topic: str, assignor: str | None = None, *, protocol: str = "classic"
    ) -> None:
        settings: dict[str, object] = {"bootstrap.servers": servers, "group.id": group, "group.protocol": protocol}
        if protocol == "classic":
            settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
            settings["partition.assignment.strategy"] = assignor
        settings |= {"auto.commit.interval.ms": 500, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, **QUIET})
        self._consumer.subscribe([topic])
        self.offsets: dict[int, list[int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foreign-member")

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    self.offsets.setdefault(partition, []).append(offset)
        self._consumer.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize(
    ("ours", "java"),
    [
        ("range", "org.apache.kafka.clients.consumer.RangeAssignor"),
        ("cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
    ],
)
@pytest.mark.apache("one of the members is Kafka's own consumer")
@pytest.mark.parametrize("leader", ["grete", "java", "librdkafka"])
@pytest.mark.timeout(180)
def test_a_group_of_three_kinds_of_clients(
    kafka: KafkaCluster,
    topic: str,
    group: str,
    start_recorder: StartRecorder,
    tmp_path: Path,
    ours: str,
    java: str,
    leader: str,
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    with ExitStack() as stack:
        foreign: list[ForeignMember] = []
        members: list[JavaConsumer] = []

        def join(kind: str) -> None:
            if kind == "grete":
                start_recorder(kafka, topic, group, assignor=ours)
            elif kind == "java":
                options = {"partition_assignment_strategy": java, "session_timeout_ms": 6000}
                member = JavaConsumer(kafka, group, topic, **options, heartbeat_interval_ms=500)
                members.append(stack.enter_context(member))
            else:
                foreign.append(stack.enter_context(ForeignMember(kafka.bootstrap_servers, group, topic, ours)))

        # The first to come leads the group, so that each kind's assignment is the one that all must live with.
        join(leader)
        eventually(lambda: owned(kafka, group, topic) == [12], 60.0, "the first member")
        for kind in ("grete", "java", "librdkafka"):
            if kind != leader:
                join(kind)
        eventually(
            lambda: owned(kafka, group, topic) == [4, 4, 4], 60.0, lambda: f"three shares: {kafka.admin.members(group)}"
        )
        fill(kafka.bootstrap_servers, topic, 12_000, partitions=PARTITIONS)
        eventually(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
        members[0].leave()

    theirs: dict[int, list[int]] = {index: rows for (_, index), rows in members[0].offsets().items()}
    theirs |= foreign[0].offsets
    ledger = Ledger(tmp_path)
    mine = {partition: list(counter.elements()) for partition, counter in ledger.times_seen().items()}
    assert not set(mine) & set(theirs)
    assert {**mine, **theirs} == {partition: list(range(1000)) for partition in range(PARTITIONS)}
    assert len(mine) == 4
