"""Groups of the consumer protocol (KIP-848): members come, go, die and stand still; strangers, too."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import grete
from tests.integration.app_process import AppRun
from tests.integration.conftest import StartRecorder
from tests.integration.continuous_producer import SteadyProducer
from tests.integration.exactly_once import test_processes as exactly_once
from tests.integration.exactly_once.reading import fill as fill_values
from tests.integration.recorder_check import Ledger
from tests.integration.swarm_process import start_worker
from tests.integration.test_group import ForeignMember, owned
from tests.integration.test_swarm_members import generations
from tests.kafka import KafkaCluster, eventually, fill, new_cluster
from tests.kafka.java import JavaConsumer
from tests.kafka.processes import stands_still

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
PARTITIONS = 12
# Of nodes of a swarm.
KILLS = int(os.environ.get("SWARM_KILLS", "5"))
SESSION_MS = 4000
BROKER = {
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
# Of nodes: nothing is said of groups, so that the brokers decide.
DEFAULT: dict[str, object] = {"session.timeout.ms": None, "heartbeat.interval.ms": None}
MEMBER = {"protocol": "consumer", "session_ms": SESSION_MS, "work": 0.002, "commit_ms": 500}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    """A broker with short sessions of the consumer protocol."""
    with new_cluster(properties=BROKER) as cluster:
        if cluster.version.startswith("3."):
            pytest.skip("the consumer protocol is there from Kafka 4.0 on")
        yield cluster


@contextmanager
def commits_never_go_back(kafka: KafkaCluster, group: str) -> Iterator[None]:
    """Reads the committed offsets again and again: none may be lower than before."""
    stop = threading.Event()
    seen: dict[tuple[str, int], int] = {}
    backwards: list[str] = []

    def watch() -> None:
        while not stop.wait(0.2):
            for place, offset in kafka.admin.committed(group).items():
                if offset < seen.get(place, 0):
                    backwards.append(f"{place}: {seen[place]} to {offset}")
                seen[place] = offset

    thread = threading.Thread(target=watch, name="committed-offsets")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not backwards


def until_shared(kafka: KafkaCluster, group: str, topic: str, members: int, seconds: float = 60.0) -> None:
    """Waits until the members have all partitions, the same number each."""
    shares = [PARTITIONS // members] * members

    def state() -> str:
        return f"{members} members: {kafka.admin.group_state(group)} {kafka.admin.members(group)}"

    eventually(lambda: owned(kafka, group, topic) == shares, seconds, state)


def epochs(run: AppRun) -> list[tuple[int, str]]:
    """Member epoch and partitions of each assignment that the log names."""
    found = re.findall(r"generation (\d+) assigns (.*) to this member", run.output)
    return [(int(epoch), partitions) for epoch, partitions in found]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_join_leave_die_and_stand_still_under_load(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder, tmp_path: Path, assignor: str
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    settings = {**MEMBER, "assignor": assignor}
    with (
        commits_never_go_back(kafka, group),
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, 3000) as load,
    ):
        first = start_recorder(kafka, topic, group, **settings)
        until_shared(kafka, group, topic, 1)
        second = start_recorder(kafka, topic, group, **settings)
        until_shared(kafka, group, topic, 2)
        third = start_recorder(kafka, topic, group, **settings)
        until_shared(kafka, group, topic, 3)
        before_kill = Ledger(tmp_path).count
        second.process.kill()
        until_shared(kafka, group, topic, 2)
        # An orderly leave is known at once, long before a session could end.
        assert third.stop() == 0, third.output
        until_shared(kafka, group, topic, 1, seconds=SESSION_MS / 1000)
        fourth = start_recorder(kafka, topic, group, **settings)
        until_shared(kafka, group, topic, 2)
        ends = load.finish()
        fourth.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
        assert first.stop() == 0, first.output
        assert fourth.stop() == 0, fourth.output
    assert kafka.admin.members(group) == {}
    ledger = Ledger(tmp_path)
    assert before_kill > 0
    ledger.assert_everything(ends)
    ledger.assert_checksums(PARTITIONS, 100)
    ledger.assert_one_owner_at_a_time()
    killed = {batch.partition for batch in ledger.batches if batch.pid == second.pid}
    for partition, counter in ledger.times_seen().items():
        repeated = [offset for offset, times in counter.items() if times > 1]
        assert partition in killed or not repeated, f"partition {partition}: {len(repeated)} records came twice"
        assert max(counter.values()) <= 2


def test_a_process_that_stood_still_beyond_its_session_loses_everything(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    with (
        commits_never_go_back(kafka, group),
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, 2000) as load,
    ):
        still = start_recorder(kafka, topic, group, **MEMBER)
        other = start_recorder(kafka, topic, group, **MEMBER)
        until_shared(kafka, group, topic, 2)
        for _ in range(2):
            os.kill(still.pid, signal.SIGSTOP)
            eventually(lambda: stands_still(still.pid), 10.0, "all its threads stand still")
            until_shared(kafka, group, topic, 1)
            os.kill(still.pid, signal.SIGCONT)
            until_shared(kafka, group, topic, 2)
        ends = load.finish()
        other.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
        assert "lost" in still.output
        assert still.stop() == 0, still.output
        assert other.stop() == 0, other.output
    ledger = Ledger(tmp_path)
    ledger.assert_everything(ends)
    ledger.assert_checksums(PARTITIONS, 100)


def test_a_static_member_that_is_restarted_moves_nothing(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    with SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, 1000) as load:
        other = start_recorder(kafka, topic, group, **MEMBER, instance="other")
        first = start_recorder(kafka, topic, group, **MEMBER, instance="restarted")
        until_shared(kafka, group, topic, 2)
        first.until(lambda: epochs(first), 30.0, "an assignment")
        before = epochs(other)
        # Closed in order: its place is kept, and its successor has it at once.
        assert first.stop() == 0, first.output
        second = start_recorder(kafka, topic, group, **MEMBER, instance="restarted")
        second.until(lambda: epochs(second), SESSION_MS / 1000 - 0.5, "the same place")
        assert epochs(second)[-1][1] == epochs(first)[-1][1]
        assert epochs(other) == before
        # Killed: the successor takes the place over, and waits for no session.
        second.process.kill()
        third = start_recorder(kafka, topic, group, **MEMBER, instance="restarted")
        third.until(lambda: epochs(third), SESSION_MS / 1000 - 0.5, "the same place")
        assert "which had the group.instance.id of this one" in third.output
        assert epochs(third)[-1][1] == epochs(first)[-1][1]
        assert epochs(other) == before
        until_shared(kafka, group, topic, 2)
        ends = load.finish()
        third.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
        assert third.stop() == 0, third.output
        assert other.stop() == 0, other.output
    Ledger(tmp_path).assert_everything(ends)


def test_of_two_living_members_with_one_id_the_older_one_is_fenced(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    older = start_recorder(kafka, topic, group, **MEMBER, instance="twin")
    older.until(lambda: epochs(older), 30.0, "an assignment")
    newer = start_recorder(kafka, topic, group, **MEMBER, instance="twin")
    newer.until(lambda: epochs(newer), 30.0, "the place of the older one")
    assert older.wait(30.0) == 1
    for words in (group, "group.instance.id=twin", "another member has joined", "give each process its own id"):
        assert words in older.output, words
    assert epochs(newer)[-1][1] == epochs(older)[-1][1]
    assert newer.stop() == 0, newer.output


def test_a_setting_of_the_classic_protocol_selects_it(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder
) -> None:
    kafka.create_topic(topic)
    settings: dict[str, object] = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}
    for given, protocol in (
        ({}, "consumer"),
        ({"session.timeout.ms": 6000}, "classic"),
        ({"partition.assignment.strategy": "range"}, "classic"),
        ({"partition.assignment.strategy": "range", "group.remote.assignor": "range"}, "consumer"),
    ):
        with grete.client.Consumer({**settings, **given}) as consumer, grete.client.Admin(settings) as admin:
            consumer.subscribe([topic])
            eventually(lambda consumer=consumer: consumer.poll(0.1) or consumer.assignment(), 30.0, "a partition")  # type: ignore[misc]
            assert admin.describe_group(group).protocol == protocol, given


@pytest.mark.apache("one of the members is Kafka's own consumer")
def test_a_group_of_three_kinds_of_clients(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    with ExitStack() as stack:
        foreign = stack.enter_context(ForeignMember(kafka.bootstrap_servers, group, topic, protocol="consumer"))
        until_shared(kafka, group, topic, 1)
        ours = start_recorder(kafka, topic, group, protocol="consumer")
        until_shared(kafka, group, topic, 2)
        java = stack.enter_context(JavaConsumer(kafka, group, topic, group_protocol="consumer"))
        until_shared(kafka, group, topic, 3)
        fill(kafka.bootstrap_servers, topic, 12_000, partitions=PARTITIONS)
        ours.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
        java.leave()
    theirs: dict[int, list[int]] = {index: rows for (_, index), rows in java.offsets().items()}
    theirs |= foreign.offsets
    mine = {partition: list(counter.elements()) for partition, counter in Ledger(tmp_path).times_seen().items()}
    assert not set(mine) & set(theirs)
    assert {**mine, **theirs} == {partition: list(range(1000)) for partition in range(PARTITIONS)}
    assert len(mine) == 4


@pytest.mark.apache("embedded brokers do not convert live groups")
def test_a_live_group_moves_to_the_protocol_and_back(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    with (
        commits_never_go_back(kafka, group),
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, 2000) as load,
    ):
        members = [start_recorder(kafka, topic, group, **MEMBER | {"protocol": "classic"}) for _ in range(2)]
        until_shared(kafka, group, topic, 2)
        for protocol in ("auto", "classic"):
            for place in range(2):
                assert members[place].stop() == 0, members[place].output
                members[place] = start_recorder(kafka, topic, group, **MEMBER | {"protocol": protocol})
                until_shared(kafka, group, topic, 2)
            said = ["(consumer protocol)" in run.output for run in members]
            assert said == [protocol == "auto"] * 2
        ends = load.finish()
        members[0].until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
        for run in members:
            assert run.stop() == 0, run.output
    ledger = Ledger(tmp_path)
    ledger.assert_everything(ends)
    ledger.assert_one_owner_at_a_time()


def test_a_group_that_is_not_converted_is_joined_by_its_own_protocol(
    topic: str, group: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    with new_cluster(properties=BROKER | {"group.consumer.migration.policy": "disabled"}) as kafka:
        kafka.create_topic(topic, partitions=PARTITIONS)
        first = start_recorder(kafka, topic, group, **MEMBER | {"protocol": "classic"})
        until_shared(kafka, group, topic, 1)
        with grete.client.Consumer(
            {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
        ) as refused:
            refused.subscribe([topic])
            with pytest.raises(grete.GroupError, match=r"group\.protocol=classic or auto"):
                refused.poll(timeout=30.0)
        second = start_recorder(kafka, topic, group, **MEMBER | {"protocol": "auto"})
        until_shared(kafka, group, topic, 2)
        fill(kafka.bootstrap_servers, topic, 1200, partitions=PARTITIONS)
        second.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
        assert "(consumer protocol)" not in second.output
        assert first.stop() == 0, first.output
        assert second.stop() == 0, second.output
        # The empty group takes the protocol of its next member, and keeps its offsets.
        committed = kafka.admin.committed(group)
        third = start_recorder(kafka, topic, group, **MEMBER | {"protocol": "auto"})
        until_shared(kafka, group, topic, 1)
        assert "(consumer protocol)" in third.output
        assert kafka.admin.committed(group) == committed
        assert third.stop() == 0, third.output
    assert len(committed) == PARTITIONS


def test_a_swarm(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    settings = {**DEFAULT, "auto.commit.interval.ms": 500}
    with (
        start_worker(kafka, topic, tmp_path, nodes=3, kafka_settings=settings) as run,
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, 500) as load,
    ):
        pids = run.until_ready()
        until_shared(kafka, topic, topic, 3)
        for sig in (signal.SIGKILL, signal.SIGTERM):
            gone = pids[1]
            os.kill(gone, sig)
            pids[1] = run.until_replaced(1, gone)
            run.until(lambda: run.notes("batch", pid=pids[1]), 30.0, "the new one works")
        ends = load.finish()
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "all is committed")
        assert run.stop() == 0, run.output
    Ledger(tmp_path).assert_everything(ends)
    eventually(lambda: kafka.admin.members(topic) == {}, SESSION_MS / 1000, "the group was left")


@pytest.mark.timeout(120 + 5 * KILLS)
@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
def test_a_killed_node_waits_for_no_session(kafka: KafkaCluster, topic: str, tmp_path: Path, static: bool) -> None:
    """SWARM_KILLS: number of kills. The times from a kill to the first finished batch are printed (pytest -s)."""
    kafka.create_topic(topic, partitions=PARTITIONS)
    settings = {**DEFAULT, "auto.commit.interval.ms": 100}
    app = {"swarm": {"static_membership": static}}
    rng, waits = random.Random(KILLS), list[float]()
    with (
        start_worker(kafka, topic, tmp_path, nodes=3, kafka_settings=settings, app=app) as run,
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, 500) as load,
    ):
        pids = run.until_ready()
        until_shared(kafka, topic, topic, 3)

        def at_rest() -> bool:
            return set(generations(run).values()) == {kafka.group_epochs(topic)[-1]}

        eventually(at_rest, 30.0, "all nodes have the epoch of the group")
        epochs, began = kafka.group_epochs(topic), time.monotonic_ns()
        for number in range(KILLS):
            node = rng.randrange(3)
            gone, killed = pids[node], time.monotonic_ns()
            os.kill(gone, signal.SIGKILL)
            run.until_named("group.predecessor_released", count=number + 1)
            pids[node] = run.until_replaced(node, gone)
            run.until(lambda node=node: run.notes("batch", pid=pids[node]), 30.0, "the new one works")  # type: ignore[misc]
            waits.append((run.notes("batch", pid=pids[node])[0]["at"] - killed) / 1e6)
        if static:
            assert kafka.group_epochs(topic) == epochs, "no rebalance"
            taken = [row for row in run.notes("revoked") if row["at"] > began]
            assert not taken, "nothing was taken from the others"
        ends = load.finish()
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "all is committed")
        assert run.stop() == 0, run.output
    assert "UNRELEASED_INSTANCE_ID" not in run.output
    Ledger(tmp_path).assert_everything(ends)
    waits.sort()
    median, late = waits[len(waits) // 2], waits[min(KILLS - 1, KILLS * 99 // 100)]
    within = sum(wait <= 150 for wait in waits)
    print(
        f"\n{KILLS} kills: median {median:.0f} ms, 99% {late:.0f} ms, longest {waits[-1]:.0f} ms to the first batch; "
        f"{within} within 150 ms",
        flush=True,
    )


def test_a_client_in_the_group(kafka: KafkaCluster, topic: str, group: str) -> None:
    """Positions, commits, the member epoch in a transaction, and a second member without an instance id."""
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
    with grete.client.Consumer(settings) as consumer:
        consumer.subscribe([topic])
        read = 0
        while read < 200:
            messages = consumer.poll(timeout=30.0)
            assert messages is not None
            read += len(messages)
        membership = consumer.membership()
        assert (membership.state, membership.ready, membership.partitions) == ("stable", True, 2)
        (member,) = kafka.admin.members(group)
        producer_settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": group}
        with grete.client.Producer(producer_settings) as producer, producer.transaction():
            producer.send_offsets({(topic, 0): 70, (topic, 1): 80}, consumer)
        assert kafka.admin.committed(group) == {(topic, 0): 70, (topic, 1): 80}
        consumer.commit()
        assert kafka.admin.committed(group) == {(topic, 0): 100, (topic, 1): 100}
        assert re.fullmatch(r"[0-9a-f-]{36}", member)
    assert kafka.admin.members(group) == {}


def test_exactly_once_over_kills_and_members_that_come_and_go(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    fill_values(kafka, topic, exactly_once.VALUES, partitions=2, outputs=2)
    own = exactly_once.environment(kafka, topic, group, protocol="consumer", session=SESSION_MS)
    with AppRun(exactly_once.APP, tmp_path, own) as killed:
        killed.until(lambda: exactly_once.progress(kafka, topic, group) >= 50, 60.0, "some records")
        with AppRun(exactly_once.APP, tmp_path, own) as other:
            eventually(lambda: len(kafka.admin.members(group)) == 2, 60.0, "two members")
            killed.until(lambda: exactly_once.progress(kafka, topic, group) >= 200, 60.0, "more records")
            os.kill(killed.pid, signal.SIGKILL)
            with AppRun(exactly_once.APP, tmp_path, own) as last:
                all_done = exactly_once.COUNT
                last.until(lambda: exactly_once.progress(kafka, topic, group) == all_done, 90.0, "all records")
                assert "(consumer protocol)" in last.output
                assert last.stop() == 0, last.output
            assert other.stop() == 0, other.output
    exactly_once.check_output(kafka, topic)


def test_an_assignor_that_brokers_do_not_offer_is_named(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": group,
        "group.protocol": "consumer",
        "group.remote.assignor": "cooperative-sticky",
    }
    with grete.client.Consumer(settings) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(grete.GroupError, match=r"cooperative-sticky.*group\.consumer\.assignors"):
            consumer.poll(timeout=30.0)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_chaos_of_members(
    kafka: KafkaCluster, topic: str, group: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    """`SOAK_SEED`, `SOAK_ROUNDS`: three to six members; each round one joins, leaves, dies or stands still."""
    seed, rounds = int(os.environ.get("SOAK_SEED", "1")), int(os.environ.get("SOAK_ROUNDS", "40"))
    choice = random.Random(seed)
    kafka.create_topic(topic, partitions=PARTITIONS)
    suspended: list[AppRun] = []
    harmed: set[int] = set()

    def start() -> AppRun:
        instance = f"place-{len(members) + len(harmed)}-{choice.random()}" if choice.random() < 0.3 else ""
        return start_recorder(kafka, topic, group, **MEMBER, instance=instance)

    with (
        commits_never_go_back(kafka, group),
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, 1500) as load,
    ):
        members: list[AppRun] = []
        members += [start() for _ in range(3)]
        until_shared(kafka, group, topic, 3)
        for _ in range(rounds):
            fate = choice.choice(["join", "leave", "kill", "stop"])
            if len(members) <= 3 or (fate == "join" and len(members) < 6):
                members.append(start())
            elif fate == "leave":
                run = members.pop(choice.randrange(len(members)))
                assert run.stop() == 0, run.output
            elif fate == "kill":
                run = members.pop(choice.randrange(len(members)))
                harmed.add(run.pid)
                run.process.kill()
            else:
                run = choice.choice(members)
                harmed.add(run.pid)
                os.kill(run.pid, signal.SIGSTOP)
                suspended.append(run)
            time.sleep(choice.random() * 1.5 * SESSION_MS / 1000)
            while suspended:
                os.kill(suspended.pop().pid, signal.SIGCONT)
        eventually(lambda: len(owned(kafka, group, topic)) == len(members), 60.0, "all members have a share")
        ends = load.finish()
        members[0].until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "no lag")
        for run in members:
            assert run.stop() == 0, run.output
    ledger = Ledger(tmp_path)
    ledger.assert_everything(ends)
    ledger.assert_checksums(PARTITIONS, 100)
    # Processes without a fault never worked on one partition at the same time.
    ledger.batches = [batch for batch in ledger.batches if batch.pid not in harmed]
    ledger.assert_one_owner_at_a_time()
