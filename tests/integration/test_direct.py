"""Routes that say which partitions they read: no membership, offsets in the group all the same."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import dead_letters, make, running, until_done
from tests.integration.swarm_process import WORKER, SwarmRun
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka


def lag_of(kafka: KafkaCluster, group: str, topic: str, *partitions: int) -> int:
    """What is behind the committed offsets; what was never committed counts from the start."""
    ends = kafka.admin.end_offsets(topic)
    committed = kafka.admin.committed(group)
    return sum(ends[at] - committed.get((topic, at), 0) for at in partitions)


def test_its_partitions_and_no_others_from_where_the_group_was(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=4)
    fill(kafka.bootstrap_servers, topic, 4000, partitions=4)
    notes: list[tuple[str, int]] = []
    seen: Counter[tuple[int, int]] = Counter()

    class Reader(grete.Consumer):
        def initialize(self) -> None:
            notes.append(("initialize", self.partition))

        def consume(self) -> None:
            seen.update((self.partition, offset) for offset in self.messages.offsets)

        def eof(self) -> None:
            notes.append(("eof", self.partition))

        def tick(self) -> None:
            notes.append(("tick", self.partition))

        def revoked(self) -> None:
            notes.append(("revoked", self.partition))

        def shutdown(self) -> None:
            notes.append(("shutdown", self.partition))

    for count in (4000, 8000):
        app = make(kafka, group)
        app.consumer(topic, partitions=[0, 3], max_messages=100, tick="50ms")(Reader)
        notes.clear()
        with running(app):
            eventually(lambda: lag_of(kafka, group, topic, 0, 3) == 0, 60.0, lambda: str(notes))
            assert kafka.admin.members(group) == {}, "it is no member"
            lanes = [(lane["topic"], lane["partition"]) for lane in app.statistics()["lanes"]]
            assert sorted(lanes) == [(topic, 0), (topic, 3)]
            eventually(lambda: {("eof", 0), ("eof", 3), ("tick", 0)} <= set(notes), 30.0, lambda: str(notes))
        assert seen == Counter({(at, offset): 1 for at in (0, 3) for offset in range(count // 4)})
        hooks = [note for note in notes if note[0] not in ("eof", "tick")]
        assert sorted(hooks) == [(hook, at) for hook in ("initialize", "shutdown") for at in (0, 3)]
        assert set(kafka.admin.committed(group)) == {(topic, 0), (topic, 3)}
        fill(kafka.bootstrap_servers, topic, 4000, partitions=4)


def test_a_stop_waits_for_the_job_and_commits_it(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    begun = threading.Event()
    app = make(kafka, group, {"auto.commit.interval.ms": 60_000})

    @app.consumer(topic, partitions=[0], max_messages=10, max_wait="10s")
    def slow(messages: grete.Messages) -> None:
        begun.set()
        runner = app._current_runner()
        assert runner is not None
        eventually(lambda: runner._stop.remaining() is not None, 30.0, "the stop")

    with running(app):
        assert begun.wait(30.0)
    assert lag_of(kafka, group, topic, 0) == 0


@pytest.mark.parametrize("concurrency", ["partition", "key"])
def test_failures_and_dead_letters_go_their_way(kafka: KafkaCluster, topic: str, group: str, concurrency: Any) -> None:
    kafka.create_topic(topic, partitions=2)
    kafka.create_topic(f"{topic}.dlq")
    fill(kafka.bootstrap_servers, topic, 20, partitions=2, key=lambda index: b"%d" % index)

    def picky(message: grete.Message) -> None:
        if message.offset == 5:
            raise ValueError("no")

    app = make(kafka, group)
    retry = grete.Retry(attempts=2, backoff="10ms")
    app.consumer(topic, partitions=[0, 1], concurrency=concurrency, retry=retry, dead_letter=f"{topic}.dlq")(picky)
    with running(app):
        until_done(kafka, app, topic)
    assert len(dead_letters(kafka, f"{topic}.dlq")) == 2


def test_what_the_route_promises_about_offsets_holds(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    committed: list[dict[tuple[str, int], int]] = []

    def note(messages: grete.Messages) -> None:
        committed.append(kafka.admin.committed(group))

    app = make(kafka, group)
    app.consumer(topic, partitions=[0], offsets="at_most_once", max_messages=10, max_wait="5s")(note)
    with running(app):
        until_done(kafka, app, topic)
    assert committed[0] == {(topic, 0): 10}, "committed before the handler has run"


def test_a_partition_that_is_not_there_is_named(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic, partitions=2)
    app = make(kafka, group)
    app.consumer(topic, partitions=[1, 2, 7])(lambda messages: None)
    app.start()
    error = eventually(lambda: app.error, 30.0, "the App ends")
    assert isinstance(error, grete.GreteError)
    assert f"topic {topic} has 2 partitions, numbered from 0, and 2, 7 are not among them" in str(error)
    with pytest.raises(grete.GreteError, match="not among them"):
        app.stop()


def test_a_group_with_members_takes_no_offsets_of_strangers(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    member = make(kafka, group)
    member.consumer(topic)(lambda messages: None)
    direct = make(kafka, group)
    direct.consumer(topic, partitions=[0])(lambda messages: None)
    with running(member):
        until_done(kafka, member, topic)
        member.quiet()
        fill(kafka.bootstrap_servers, topic, 10)
        with caplog.at_level(logging.WARNING), running(direct):
            refused = f"{topic}[0]: offset 20 was not committed: the group has members, and only members may commit"
            eventually(lambda: refused in caplog.text, 30.0, lambda: caplog.text)
        assert kafka.admin.committed(group) == {(topic, 0): 10}


def swarm(kafka: KafkaCluster, group: str, directory: Path, topics: str, nodes: int, **settings: object) -> SwarmRun:
    environment = {
        "SWARM_SERVERS": kafka.bootstrap_servers,
        "SWARM_GROUP": group,
        "SWARM_TOPIC": topics,
        "SWARM_KAFKA": json.dumps({"auto.commit.interval.ms": 200}),
    }
    environment |= {f"SWARM_{name.upper()}": json.dumps(value) for name, value in settings.items()}
    return SwarmRun(WORKER, directory, environment, nodes=nodes)


def until_read(kafka: KafkaCluster, run: SwarmRun, group: str, *topics: str) -> set[tuple[str, int, int]]:
    """Wait until the topics are read; returns (topic, partition, node)."""
    run.until(lambda: not any(lag_of(kafka, group, name, 0, 1, 2) for name in topics), 60.0, f"all of {topics}")
    return {(row["topic"], row["partition"], row["node"]) for row in run.notes("initialize")}


@pytest.fixture
def topics(kafka: KafkaCluster, topic: str) -> tuple[str, str]:
    """Two, of three partitions each, with records."""
    for name in (topic, f"{topic}.other"):
        kafka.create_topic(name, partitions=3)
        fill(kafka.bootstrap_servers, name, 300, partitions=3)
    return topic, f"{topic}.other"


def test_nodes_read_what_is_theirs_and_one_without_a_route_is_steady(
    kafka: KafkaCluster, topics: tuple[str, str], group: str, tmp_path: Path
) -> None:
    route = {"partitions": {0: [0, 2], 1: [1]}}
    with swarm(kafka, group, tmp_path, " ".join(topics), 3, route=route) as run:
        read_by = until_read(kafka, run, group, *topics)
        assert read_by == {(name, at, node) for name in topics for at, node in ((0, 0), (2, 0), (1, 1))}
        assert kafka.admin.members(group) == {}
        run.until_ready()
        assert run.stop() == 0, run.output


def test_topics_are_read_by_the_nodes_that_they_are_pinned_to(
    kafka: KafkaCluster, topics: tuple[str, str], group: str, tmp_path: Path
) -> None:
    """The nodes are members of one group with different subscriptions."""
    pins = {"nodes": {0: [topics[0]], 1: [topics[1]]}}
    with swarm(kafka, group, tmp_path, " ".join(topics), 2, app=pins) as run:
        read_by = until_read(kafka, run, group, *topics)
        assert read_by == {(name, at, node) for node, name in enumerate(topics) for at in range(3)}
        assert run.stop() == 0, run.output
