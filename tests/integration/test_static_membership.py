"""Static members on Kafka: one that is killed and returns in time causes no rebalance; a second one with the same id
fences the first.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer

import grete
from tests.integration.app_process import AppRun
from tests.integration.commands import grete as command
from tests.integration.conftest import StartRecorder
from tests.kafka import KafkaCluster, eventually
from tests.kafka.admin import QUIET

pytestmark = pytest.mark.kafka
PARTITIONS = 4
SESSION_MS = 4000
PATIENCE = 30.0
Facts = Mapping[str, object]
# What another member knows of its membership; a rebalance that it took part in changes it.
Look = Callable[[], Facts]


def facts(run: AppRun) -> tuple[int, bool, str] | None:
    """Generation, whether it leads, and its partitions, once the log says so."""
    joined = re.findall(r"joined the group in generation (\d+) as (its leader )?", run.output)
    given = re.findall(r"generation (\d+) assigns (.*) to this member", run.output)
    if not joined or not given or joined[-1][0] != given[-1][0]:
        return None
    return int(joined[-1][0]), bool(joined[-1][1]), given[-1][1]


def wait_for_facts(run: AppRun) -> None:
    run.until(lambda: facts(run), PATIENCE, "an assignment")


def shares(kafka: KafkaCluster, group: str) -> list[int]:
    """How many partitions each member has, of a stable group."""
    return sorted(len(share) for share in kafka.admin.members(group).values()) if is_stable(kafka, group) else []


def is_stable(kafka: KafkaCluster, group: str) -> bool:
    return kafka.admin.group_state(group) == "STABLE"


@contextmanager
def grete_member(servers: str, group: str, topic: str) -> Iterator[Look]:
    kafka = {"bootstrap.servers": servers, "group.id": group, "session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
    with grete.client.Consumer(kafka) as consumer:
        consumer.subscribe([topic])

        def look() -> Facts:
            membership = consumer.membership()
            return {name: getattr(membership, name) for name in ("generation", "state", "ready", "partitions")}

        yield look


@contextmanager
def confluent_member(servers: str, group: str, topic: str) -> Iterator[Look]:
    settings = {"bootstrap.servers": servers, "group.id": group, "partition.assignment.strategy": "cooperative-sticky"}
    timing = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
    consumer = Consumer({**settings, **timing, **QUIET})
    seen: dict[str, int] = {"assigned": 0, "revoked": 0, "partitions": 0}

    def count(what: str) -> Callable[[Consumer, list[Any]], None]:
        def callback(_: Consumer, tps: list[Any]) -> None:
            seen[what] += 1
            seen["partitions"] += len(tps) if what == "assigned" else -len(tps)

        return callback

    consumer.subscribe([topic], on_assign=count("assigned"), on_revoke=count("revoked"))
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            consumer.poll(0.05)

    thread = threading.Thread(target=poll, name="confluent-member")
    thread.start()
    try:
        yield lambda: dict(seen)
    finally:
        stop.set()
        thread.join()
        consumer.close()


@contextmanager
def aiokafka_member(servers: str, group: str, topic: str) -> Iterator[Look]:
    """It knows range of what Grete knows."""
    seen: dict[str, int] = {"assigned": 0, "revoked": 0, "partitions": 0}

    class Count(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            seen["revoked"] += 1

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            seen["assigned"] += 1
            seen["partitions"] = len(assigned)

    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            heartbeat_interval_ms=200,
            session_timeout_ms=6000,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        consumer.subscribe([topic], listener=Count())
        await consumer.start()
        ready.set()
        await stop.wait()
        await consumer.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), name="aiokafka-member")
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield lambda: dict(seen)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


MEMBERS = {"grete": grete_member, "confluent": confluent_member, "aiokafka": aiokafka_member}


@pytest.mark.parametrize(
    ("other", "leads"),
    [
        ("grete", True),
        ("grete", False),
        ("confluent", True),
        ("confluent", False),
        ("aiokafka", True),
        ("aiokafka", False),
    ],
)
def test_a_killed_member_that_returns_in_time_causes_no_rebalance(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder, other: str, leads: bool
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    assignor = "range" if other == "aiokafka" else "cooperative-sticky"

    def start() -> AppRun:
        timing = {"session_ms": SESSION_MS, "heartbeat_ms": 200, "metadata_ms": 500}
        return start_recorder(kafka, topic, group, instance="restarted", assignor=assignor, **timing)

    half = [PARTITIONS // 2, PARTITIONS // 2]
    victim = start() if leads else None
    if victim is not None:
        wait_for_facts(victim)  # who comes first leads
    with MEMBERS[other](kafka.bootstrap_servers, group, topic) as look:
        if victim is None:
            eventually(lambda: look()["partitions"], PATIENCE, lambda: f"{look()}")
            victim = start()
        eventually(lambda: shares(kafka, group) == half and look()["partitions"] == 2, PATIENCE, lambda: f"{look()}")
        if other == "grete":
            eventually(lambda: look()["ready"], PATIENCE, lambda: f"{look()}")
        victim.until(lambda: len((facts(victim) or (0, 0, ""))[2].split(", ")) == 2, PATIENCE, "two partitions")
        before, theirs, described = facts(victim), look(), kafka.admin.members(group)
        assert before is not None
        assert before[1] == leads

        victim.process.kill()
        victim.wait(PATIENCE)
        back = start()
        wait_for_facts(back)
        assert facts(back) == before, back.output
        # In a rebalance, the other members would rejoin at their next heartbeats, which are 0.2 s apart.
        eventually(lambda: kafka.admin.members(group).keys() != described.keys(), PATIENCE, "the new member id")
        assert sorted(map(sorted, kafka.admin.members(group).values())) == sorted(map(sorted, described.values()))
        assert is_stable(kafka, group)
        assert look() == theirs

        if leads and other == "grete":
            with grete.client.Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
                # A leader that has come back still sees to new partitions,
                admin.create_partitions(topic, PARTITIONS + 2)
                eventually(lambda: shares(kafka, group) == [3, 3], PATIENCE, lambda: f"{kafka.admin.members(group)}")
                # and to those that came while it was away.
                back.process.kill()
                admin.create_partitions(topic, PARTITIONS + 4)
                again = start()
                again.until(lambda: shares(kafka, group) == [4, 4], PATIENCE, "four partitions")


def test_of_two_with_one_id_the_older_one_is_fenced(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    settings = {"session_ms": SESSION_MS, "heartbeat_ms": 200, "instance": "the-one"}
    older = start_recorder(kafka, topic, group, **settings)
    wait_for_facts(older)
    newer = start_recorder(kafka, topic, group, **settings)
    wait_for_facts(newer)
    assert older.wait(PATIENCE) == 1
    for words in (
        group,
        "group.instance.id=the-one",
        "another member has joined",
        "give each process its own id",
    ):
        assert words in older.output, words
    assert "FENCED_INSTANCE_ID" in older.output
    first, second = facts(older), facts(newer)
    assert first is not None
    assert second == (first[0], True, first[2]), "the newer one took its place as it was"
    assert newer.stop() == 0


def test_the_older_ones_calls_raise_what_says_which_id_it_was(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "group.instance.id": "twin"}
    settings |= {"heartbeat.interval.ms": "100", "auto.offset.reset": "earliest"}
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.produce(topic, b"one")
    older, newer = grete.client.Consumer(settings), grete.client.Consumer(settings)
    try:
        older.subscribe([topic])
        messages = eventually(lambda: older.poll(0.1), PATIENCE, "the record")
        newer.subscribe([topic])
        with pytest.raises(grete.FencedInstanceError) as caught:
            eventually(lambda: older.poll(0.1), PATIENCE, "an error")
        assert (caught.value.group, caught.value.instance) == (group, "twin")
        with pytest.raises(grete.FencedInstanceError):
            older.commit(messages, timeout=PATIENCE)
        assert (older.membership().state, older.membership().ready, older.assignment()) == ("failed", False, [])
        # It has committed nothing: the newer one gets the record, too.
        assert eventually(lambda: newer.poll(0.1), PATIENCE, "the record")
        assert newer.membership().instance == "twin"
    finally:
        older.close(PATIENCE)
        newer.close(PATIENCE)


def test_a_closed_member_keeps_its_place_until_it_is_removed(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    leaver = start_recorder(kafka, topic, group, instance="closed", session_ms=30_000, heartbeat_ms=200)
    with (
        grete_member(kafka.bootstrap_servers, group, topic) as look,
        grete.client.Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin,
    ):
        eventually(lambda: shares(kafka, group) == [2, 2] and look()["ready"], PATIENCE, lambda: f"{look()}")
        wait_for_facts(leaver)
        theirs = look()
        assert leaver.stop() == 0
        assert "keeps the partitions of static member closed for 30000 ms" in leaver.output
        described = admin.describe_group(group)
        (kept,) = [member for member in described.members if member.instance == "closed"]
        assert (described.state, len(kept.partitions), look()) == ("Stable", 2, theirs)

        with pytest.raises(grete.KafkaError, match=r"static member unknown of group .* describe_groups"):
            admin.remove_members(group, ["unknown"])
        shown = command(kafka, "groups", "describe", group).out.splitlines()
        assert shown[1].split()[-1] == "INSTANCE"
        assert [line.split()[-1] for line in shown].count("closed") == 2
        assert command(kafka, "groups", "remove-member", group, "closed").status == 2, "no terminal to ask on"
        assert command(kafka, "groups", "remove-member", group, "closed", "--yes").status == 0
        eventually(lambda: look()["partitions"] == PARTITIONS, PATIENCE, lambda: f"{look()}")
        assert [member.instance for member in admin.describe_group(group).members] == [None]


def test_an_absence_beyond_the_session_is_a_rebalance(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    settings = {"session_ms": 1500, "heartbeat_ms": 200, "instance": "late"}
    victim = start_recorder(kafka, topic, group, **settings)
    with grete_member(kafka.bootstrap_servers, group, topic) as look:
        eventually(lambda: shares(kafka, group) == [2, 2] and look()["ready"], PATIENCE, lambda: f"{look()}")
        victim.process.kill()
        eventually(lambda: look()["partitions"] == PARTITIONS, PATIENCE, lambda: f"{look()}")
        back = start_recorder(kafka, topic, group, **settings)
        eventually(lambda: shares(kafka, group) == [2, 2] and look()["ready"], PATIENCE, lambda: f"{look()}")
        assert back.stop() == 0
