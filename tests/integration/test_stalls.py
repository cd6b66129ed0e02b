"""Partitions that do not move: log, probes, statistics and metrics name the reason, and report the end of the stall."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka
import pytest

import grete
import grete.client
from tests.integration.app_in_process import make, running
from tests.integration.test_failed_partitions import address, admin, events, lane
from tests.integration.test_probes import value
from tests.kafka import KafkaCluster, eventually, new_cluster
from tests.unit.probe_client import send_probe

pytestmark = pytest.mark.kafka
# The smallest memory for fetched records.
BUDGET = 65_536
RECORD = b"x" * 1000


class Watched:
    """An App with one handler per record, which a test may hold; and what the App reports of its partitions."""

    def __init__(
        self, kafka: KafkaCluster, topic: str, tuning: Mapping[str, object] | None = None, **settings: Any
    ) -> None:
        self.probes = address()
        self.app = make(
            kafka,
            topic,
            {"auto.offset.reset": "earliest", "metadata.max.age.ms": 500, **(tuning or {})},
            probes=self.probes,
            stall_after="500ms",
            workers=4,
            **settings,
        )
        self.topic = topic
        self.done: list[int] = []
        self.gates: dict[int, threading.Event] = {}
        self.stalls, self.moves = events(self.app, "partition.stalled"), events(self.app, "partition.moving")
        self.app.consumer(topic, retry=grete.Retry(attempts=None, backoff="2s"), max_messages=10)(self.handler)

    def handler(self, messages: grete.Messages) -> None:
        """Holds the jobs of partitions that have a gate."""
        gate = self.gates.get(messages[0].partition)
        if gate is not None:
            assert gate.wait(60)
        self.done += [messages[0].partition] * len(messages)

    def stalled(self, waits_for: str, partition: int = 0) -> dict[str, Any]:
        """Waits until the partition is stalled for this reason. Returns its event."""

        def found() -> list[dict[str, Any]]:
            return [one for one in self.stalls if (one["waits_for"], one["partition"]) == (waits_for, partition)]

        eventually(lambda: bool(found()), 30.0, lambda: f"{waits_for}: {self.stalls} {self.app.statistics()['lanes']}")
        assert len(found()) == 1, "told once"
        return found()[0]

    def check(self, waits_for: str, text: str, partition: int = 0, *, is_told: bool = True) -> None:
        """Checks all places that report a stalled partition."""
        now = lane(self.app, partition)
        assert (now["waits_for"], now["unmoved"]) == (waits_for, True)
        assert now["last_progress_seconds"] >= 0.5
        assert text in now["wait"]
        answer = send_probe(self.probes, "/readyz")
        problems = [one for one in answer.body["problems"] if one.get("waits_for") == waits_for]
        assert [(one["topic"], one["partition"]) for one in problems] == [(self.topic, partition)]
        assert problems[0]["reason"] == "stalled"
        assert text in problems[0]["text"]
        assert value(send_probe(self.probes, "/metrics").body, "grete_stalled_lanes", reason=waits_for) == 1
        assert is_told == any(one["partition"] == partition for one in self.stalls)

    def moving(self, partition: int = 0) -> None:
        """Waits until the partition moves again, and that is reported."""
        eventually(
            lambda: any(one["partition"] == partition for one in self.moves),
            30.0,
            lambda: f"it moves: {self.moves} {self.app.statistics()['lanes']}",
        )
        metrics = send_probe(self.probes, "/metrics").body
        eventually(lambda: not lane(self.app, partition)["unmoved"], 10.0, "it does not count any more")
        assert "grete_stalled_lanes{" in metrics, "each reason is there, with 0"


def write(kafka: KafkaCluster, topic: str, count: int, partition: int = 0) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "batch.num.messages": 10}
    producer = confluent_kafka.Producer(settings)
    for _ in range(count):
        producer.produce(topic, RECORD, partition=partition)
    assert producer.flush(30) == 0


def full(app: grete.App) -> bool:
    """Returns whether the first partition has fetched all that it may hold, and less than there is."""
    lanes = app.statistics()["lanes"]
    return bool(lanes) and 2 * 20_000 < lanes[0]["queued_bytes"] < 300 * len(RECORD)


def with_backlog(
    kafka: KafkaCluster,
    topic: str,
    meanwhile: Callable[[Watched], None],
    settings: Mapping[str, object] | None = None,
) -> Watched:
    """Runs `meanwhile` while the only partition has more records than the memory holds and its handler is held. The
    handler goes on afterwards: it processes what was fetched.
    """
    write(kafka, topic, 300)
    watched = Watched(kafka, topic, {"max.partition.fetch.bytes": 20_000, **(settings or {})}, queued_bytes=BUDGET)
    gate = watched.gates[0] = threading.Event()
    watched.app.start()
    eventually(lambda: full(watched.app), 30.0, "the partition holds as much as it may")
    meanwhile(watched)
    gate.set()
    return watched


def test_an_open_transaction_of_a_foreign_producer(
    kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "grete")
    kafka.create_topic(topic)
    watched = Watched(kafka, topic, {"isolation.level": "read_committed"})
    foreign = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    foreign.init_transactions(30)
    foreign.begin_transaction()
    for _ in range(7):
        foreign.produce(topic, RECORD, partition=0)
    assert foreign.flush(30) == 0
    with running(watched.app):
        event = watched.stalled("open_transaction")
        assert (event["lag"], event["seconds"] >= 0.5) == (7, True)
        assert lane(watched.app)["lag"] == 0, "the lag ends at the last stable offset"
        watched.check("open_transaction", "a transaction is open: the last stable offset stands at 0")
        foreign.commit_transaction(30)
        watched.moving()
        eventually(lambda: len(watched.done) == 7, 30.0, "all records")
    lines = [row for row in caplog.records if row.__dict__.get("event") in ("partition.stalled", "partition.moving")]
    assert [row.levelname for row in lines] == ["WARNING", "INFO"]
    assert f"{topic}[0] has not moved for " in lines[0].getMessage()
    assert "; 7 records of " in lines[0].getMessage()
    assert lines[1].getMessage().startswith(f"{topic}[0] moves again; it had not moved for ")


def test_a_topic_that_is_deleted(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)

    def delete(_: Watched) -> None:
        with admin(kafka) as at:
            at.delete_topics([topic])

    # Classic: the coordinator of the consumer protocol takes the partitions of a deleted topic away (below).
    watched = with_backlog(kafka, topic, delete, {"group.protocol": "classic"})
    with_end(watched, lambda: watched.check("no_topic", "its topic does not exist any more"), "no_topic")


def test_a_deleted_topic_without_partitions_is_named(kafka: KafkaCluster, topic: str) -> None:
    if kafka.version.startswith("3."):
        pytest.skip("the consumer protocol is there from Kafka 4.0 on")
    kafka.create_topic(topic)

    def delete(_: Watched) -> None:
        with admin(kafka) as at:
            at.delete_topics([topic])

    watched = with_backlog(kafka, topic, delete, {"group.protocol": "consumer"})
    try:
        eventually(lambda: not lanes(watched), 30.0, "no partition is left")
        eventually(lambda: topic in str(watched.app.statistics()["missing_topics"]), 30.0, "a missing topic")
        eventually(lambda: topic in str(send_probe(watched.probes, "/readyz").body), 30.0, "a problem")
        assert watched.app.error is None
    finally:
        watched.app.stop()


def lanes(watched: Watched) -> list[dict[str, Any]]:
    return list(watched.app.statistics()["lanes"])


def with_end(watched: Watched, check: Callable[[], None], waits_for: str) -> None:
    """Checks a stall, and stops the App."""
    try:
        watched.stalled(waits_for)
        check()
        assert watched.app.error is None
    finally:
        watched.app.stop()


@pytest.mark.timeout(120)
def test_a_partition_without_a_leader(topic: str) -> None:
    with new_cluster(3) as kafka:
        kafka.create_topic(topic, replication=1, config={"min.insync.replicas": 1})
        (leader,) = kafka.admin.leaders(topic).values()
        watched = with_backlog(kafka, topic, lambda _: kafka.stop(leader))
        try:
            watched.stalled("no_leader")
            watched.check("no_leader", "it has no leader")
            kafka.start(leader)
            watched.moving()
            eventually(lambda: len(watched.done) == 300, 60.0, "all records")
        finally:
            watched.app.stop()


def test_a_stuck_sibling_that_holds_the_memory(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    write(kafka, topic, 300)
    watched = Watched(kafka, topic, queued_bytes=BUDGET)
    gate = watched.gates[0] = threading.Event()
    with running(watched.app):
        eventually(lambda: any(one["queued_bytes"] > BUDGET for one in lanes(watched)), 30.0, "the memory is full")
        write(kafka, topic, 20, partition=1)
        event = watched.stalled("memory", 1)
        assert event["lag"] == 20
        watched.check("memory", f"; {topic}[0] holds most of them: ", 1)
        gate.set()
        watched.moving(1)
        eventually(lambda: len(watched.done) == 320, 30.0, "all records")


def test_a_long_backoff(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, 5)
    watched = Watched(kafka, topic)
    failures: list[grete.Messages] = []
    good = watched.handler

    def fail_once(messages: grete.Messages) -> None:
        if not failures:
            failures.append(messages)
            raise ValueError("not yet")
        good(messages)

    watched.app = make(
        kafka,
        topic,
        {"auto.offset.reset": "earliest"},
        probes=watched.probes,
        stall_after="500ms",
    )
    watched.stalls, watched.moves = events(watched.app, "partition.stalled"), events(watched.app, "partition.moving")
    watched.app.consumer(topic, retry=grete.Retry(attempts=None, backoff="6s", jitter=0.0))(fail_once)
    with running(watched.app):
        watched.stalled("retry")
        watched.check("retry", "attempt 2 at offset 0 begins in ")
        watched.moving()
        assert len(watched.done) == 5


def test_a_pause(kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "grete")
    kafka.create_topic(topic)
    write(kafka, topic, 5)
    watched = Watched(kafka, topic)
    resume: list[Callable[[], None]] = []
    done = watched.done

    class Pausing(grete.Consumer):
        def consume(self) -> None:
            done.extend(message.partition for message in self.messages)
            if not resume:
                resume.append(self.resume)
                self.pause()

    watched.app = make(kafka, topic, {"auto.offset.reset": "earliest"}, probes=watched.probes, stall_after="500ms")
    watched.stalls, watched.moves = events(watched.app, "partition.stalled"), events(watched.app, "partition.moving")
    watched.app.consumer(topic)(Pausing)
    with running(watched.app):
        eventually(lambda: len(done) == 5, 30.0, "the records before the pause")
        write(kafka, topic, 5)
        watched.stalled("paused")
        watched.check("paused", "the program has paused it")
        resume[0]()
        watched.moving()
        eventually(lambda: len(done) == 10, 30.0, "the records behind the pause")
    (line,) = [row for row in caplog.records if row.__dict__.get("event") == "partition.stalled"]
    assert line.levelname == "INFO", "the program wanted it"


def test_what_a_partition_waits_for_after_a_pause_is_told_too(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    resume: list[Callable[[], None]] = []
    busy = threading.Event()

    class Pausing(grete.Consumer):
        def consume(self) -> None:
            if self.messages[0].partition:
                assert busy.wait(60)
            elif not resume:
                resume.append(self.resume)
                self.pause()

    app = make(kafka, topic, {"auto.offset.reset": "earliest"}, stall_after="500ms", workers=1)
    stalls = events(app, "partition.stalled")
    app.consumer(topic)(Pausing)
    with running(app):
        write(kafka, topic, 1)
        eventually(lambda: bool(resume), 30.0, "the pause")
        write(kafka, topic, 1)
        eventually(lambda: [one["waits_for"] for one in stalls] == ["paused"], 30.0, lambda: f"the pause: {stalls}")
        write(kafka, topic, 1, partition=1)
        eventually(lambda: app.statistics()["busy"] == 1, 30.0, "the only worker is busy")
        resume[0]()
        eventually(
            lambda: [one["waits_for"] for one in stalls if one["partition"] == 0] == ["paused", "worker"],
            30.0,
            lambda: f"the worker: {stalls}",
        )
        busy.set()
        eventually(lambda: all(one["lag"] == 0 for one in app.statistics()["lanes"]), 30.0, "all records")


def test_marks_that_are_missing_although_nothing_is_paused(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, 5)
    watched = Watched(kafka, topic)
    seen: list[tuple[grete.Consumer, grete.Message]] = []

    class Forgetful(grete.Consumer):
        def consume(self) -> None:
            seen.extend((self, message) for message in self.messages)

    watched.app = make(kafka, topic, {"auto.offset.reset": "earliest"}, probes=watched.probes, stall_after="500ms")
    watched.stalls, watched.moves = events(watched.app, "partition.stalled"), events(watched.app, "partition.moving")
    pauses = events(watched.app, "consumer.unmarked")
    watched.app.consumer(topic, offsets="manual")(Forgetful)
    with running(watched.app):
        watched.stalled("unmarked")
        watched.check("unmarked", "5 records from offset 0 on wait for a mark")
        assert pauses == [], "no other line names the reason"
        for instance, message in seen:
            instance.mark(message)
        watched.moving()


def test_a_partition_that_is_lost_and_assigned_again_has_an_end(kafka: KafkaCluster, topic: str) -> None:
    """A fetch session of the broker has no news for the new handle."""
    kafka.create_topic(topic, partitions=2)
    write(kafka, topic, 5)
    watched = Watched(kafka, topic, {"group.instance.id": topic})
    losses = events(watched.app, "group.lost")
    with running(watched.app):
        eventually(lambda: [one["lag"] for one in lanes(watched)] == [0, 0], 30.0, lambda: f"all: {lanes(watched)}")
        with admin(kafka) as at:
            at.remove_members(topic, [topic])
        eventually(lambda: bool(losses), 60.0, "the coordinator has removed the member")
        eventually(lambda: [one["lag"] for one in lanes(watched)] == [0, 0], 30.0, lambda: f"again: {lanes(watched)}")
        assert [one["waits_for"] for one in lanes(watched)] == [None, None]


def test_a_handler_that_runs_for_long_is_told_by_its_own_event(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, 5)
    watched = Watched(kafka, topic)
    calls = events(watched.app, "consumer.stalled")
    gate = watched.gates[0] = threading.Event()
    with running(watched.app):
        eventually(lambda: bool(calls) and lane(watched.app)["unmoved"], 30.0, "the call is reported")
        now = lane(watched.app)
        assert (now["waits_for"], now["stalled"]) == ("handler", True)
        problems = send_probe(watched.probes, "/readyz").body["problems"]
        assert [one["reason"] for one in problems] == ["stalled"], "told once"
        assert value(send_probe(watched.probes, "/metrics").body, "grete_stalled_lanes", reason="handler") == 1
        gate.set()
        watched.moving()
    assert watched.stalls == []


def test_a_low_level_consumer_names_what_each_partition_waits_for(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    write(kafka, topic, 5)
    with grete.client.Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as reader:
        reader.assign([(topic, 0, "earliest"), (topic, 1, "earliest")])

        def waits() -> list[str | None]:
            return [one["waits_for"] for one in reader.statistics()["partitions"]]

        eventually(lambda: waits() == ["poll", None], 30.0, lambda: f"records for poll: {waits()}")
        (first, _) = reader.statistics()["partitions"]
        assert (first["topic"], first["partition"], first["position"], first["lag"]) == (topic, 0, 0, 5)
        assert first["wait"] == "its records wait for the next call of poll"
        reader.pause([(topic, 0)])
        eventually(lambda: waits() == ["paused", None], 30.0, lambda: f"a pause: {waits()}")
        reader.resume([(topic, 0)])
        read: list[int] = []

        def read_all() -> bool:
            read.extend(one.offset for one in reader.poll(0.1))
            return len(read) == 5

        eventually(read_all, 30.0, "all records")
        reader.poll(0)  # the records of the call before are processed now
        eventually(lambda: waits() == [None, None], 30.0, lambda: f"nothing: {reader.statistics()}")
