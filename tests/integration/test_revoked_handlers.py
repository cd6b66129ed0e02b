"""Handlers that outlive their assignment: what they do late is refused, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, make, running, until_done
from tests.integration.app_process import AppRun
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.processes import stands_still

pytestmark = pytest.mark.kafka
PARTITIONS = 2
EACH = 50
# A partition that is asked back has 1.5 s to come to an end.
TUNING = {"max.poll.interval.ms": 1500, "session.timeout.ms": 6000, "heartbeat.interval.ms": 200}


class Late:
    """What the handlers of the first member do once the gate opens."""

    def __init__(self) -> None:
        self.inside: set[int] = set()
        self.gate = threading.Event()
        self.marks: dict[int, list[str]] = {}
        self.hooks: list[tuple[str, int]] = []
        self.cancelled: list[int] = []
        self.over: set[int] = set()


def sync_handler(late: Late) -> type[grete.Consumer]:
    class Slow(grete.Consumer):
        def consume(self) -> None:
            if self.partition not in late.marks:
                late.inside.add(self.partition)
                late.gate.wait(120)
                tries: list[Callable[[], object]] = [
                    lambda: self.mark(self.messages[0]),
                    lambda: self.mark(self.messages, sync=True),
                    lambda: self.mark(self.messages[-1], through=True),
                ]
                late.marks[self.partition] = [outcome(attempt) for attempt in tries]
                late.over.add(self.partition)
                raise ValueError("late, too")

        def revoked(self) -> None:
            late.hooks.append(("lost" if self.lost else "revoked", self.partition))

    return Slow


def async_handler(late: Late) -> type[grete.Consumer]:
    class Slow(grete.Consumer):
        async def consume(self) -> None:
            if self.partition in late.over:
                return
            late.inside.add(self.partition)
            try:
                await asyncio.to_thread(late.gate.wait, 120)
            except asyncio.CancelledError:
                late.cancelled.append(self.partition)
                late.marks[self.partition] = [outcome(lambda: self.mark(self.messages))]
                raise
            finally:
                late.over.add(self.partition)

        def revoked(self) -> None:
            late.hooks.append(("lost" if self.lost else "revoked", self.partition))

    return Slow


def outcome(attempt: Callable[[], object]) -> str:
    try:
        return f"returned {attempt()}"
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("concurrency", ["partition", "key"])
@pytest.mark.parametrize("handler", [sync_handler, async_handler])
def test_a_handler_outlives_the_deadline_of_its_revocation(
    kafka: KafkaCluster,
    topic: str,
    group: str,
    caplog: pytest.LogCaptureFixture,
    handler: Callable[[Late], type[grete.Consumer]],
    concurrency: Any,
) -> None:
    dlq = f"{topic}.dlq"
    kafka.create_topic(dlq)
    kafka.create_topic(topic, partitions=PARTITIONS)
    # One key a partition: one job has all.
    fill(
        kafka.bootstrap_servers, topic, EACH * PARTITIONS, partitions=PARTITIONS, key=lambda index: b"%d" % (index % 2)
    )
    late = Late()
    seen: Counter[tuple[int, int]] = Counter()
    first = make(kafka, group, tuning=TUNING)
    first.consumer(topic, retry=FAST, dead_letter=dlq, concurrency=concurrency)(handler(late))
    second = make(kafka, group, tuning=TUNING)

    @second.consumer(topic)
    def prompt(messages: grete.Messages) -> None:
        seen.update((messages.partition, offset) for offset in messages.offsets)

    def abandoned() -> list[logging.LogRecord]:
        return [row for row in caplog.records if row.__dict__.get("event") == "consumer.abandoned"]

    with running(first):
        eventually(lambda: len(late.inside) == PARTITIONS, 30.0, "both partitions are in their handlers")
        with running(second):
            eventually(lambda: len(seen) == EACH, 60.0, lambda: f"one partition is read by the second: {seen}")
            (moved,) = {partition for partition, _ in seen}
            eventually(lambda: kafka.admin.committed(group).get((topic, moved)) == EACH, 30.0, "and committed")
            assert not late.gate.is_set()
            if handler is async_handler:
                assert late.cancelled == [moved], "cancelled without a gate that opens"
            late.gate.set()
            eventually(lambda: len(late.over) == PARTITIONS, 30.0, "the handlers end")
            eventually(lambda: ("lost", moved) in late.hooks, 30.0, lambda: f"its last hook: {late.hooks}")
            until_done(kafka, first, topic)
            assert kafka.admin.committed(group)[topic, moved] == EACH
            assert set(seen.values()) == {1}
            assert {partition for partition, _ in seen} == {moved}, "the other one stays where it is"
    assert set(late.marks[moved]) == {"RevokedError"}
    (record,) = abandoned()
    fields = record.__dict__
    assert (fields["topic"], str(fields["partition"])) == (topic, str(moved))
    assert fields["handler"] == first.routes[0].name
    assert fields["handler"] in record.getMessage()
    assert ("late.gate.wait" if handler is sync_handler else "consume") in record.getMessage(), "with its stack"
    assert dead_letters(kafka, dlq) == [], "no attempt is counted, nothing is dead"
    if handler is sync_handler:
        kept = 1 - moved
        assert "RevokedError" not in late.marks[kept]


def test_a_process_that_stood_still_does_nothing_under_its_old_assignment(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    partitions, each = 8, 100
    kafka.create_topic(topic, partitions=partitions)
    fill(kafka.bootstrap_servers, topic, each * partitions, partitions=partitions)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    settings = {"GATED_SERVERS": kafka.bootstrap_servers, "GATED_TOPIC": topic, "GATED_GROUP": group}
    target = "tests.integration.apps.gated:app"
    with AppRun(target, tmp_path / "first", settings | {"GATED_GATE": gate}) as first:
        first.until(lambda: count(first, "ready") == 2, 30.0, "both workers at the gate, and the others' records there")
        os.kill(first.pid, signal.SIGSTOP)
        eventually(lambda: stands_still(first.pid), 10.0, "all its threads stand still")
        with AppRun(target, tmp_path / "second", settings) as second:
            done = {(topic, partition): each for partition in range(partitions)}
            second.until(lambda: kafka.admin.committed(group) == done, 60.0, "the second has done everything")
            begun = count(first, "begin")
            assert begun == 2
            # For reading and writing, so that `open` does not wait: the gate is open when the process resumes.
            opened = os.open(gate, os.O_RDWR)
            os.kill(first.pid, signal.SIGCONT)
            first.until(lambda: count(first, "through") == 2, 30.0, "both handlers return")
            first.until(lambda: shares(kafka, group) == [4, 4], 60.0, "it is in the group again")
            # A mark may be taken before the process has noticed anything; what counts is that no commit of it is.
            assert kafka.admin.committed(group) == done, "its late commits were refused"
            fill(kafka.bootstrap_servers, topic, each * partitions, partitions=partitions)
            first.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "all is done")
            assert second.stop() == 0, second.output
        assert first.stop() == 0, first.output
        os.close(opened)
        offsets: dict[str, Counter[tuple[int, int]]] = {}
        for name, run in (("first", first), ("second", second)):
            rows = [row for row in run.seen if row["event"] == "begin"]
            offsets[name] = Counter((row["partition"], offset) for row in rows for offset in row["offsets"])
        old = [row for row in first.seen if row["event"] == "begin" and min(row["offsets"]) < each]
        assert len(old) == begun, f"began under its old assignment: {old[begun:]}"
        assert len(offsets["second"]) >= each * partitions
        both = offsets["first"] + offsets["second"]
        assert set(both) == {(partition, offset) for partition in range(partitions) for offset in range(2 * each)}
        twice = {place for place, times in both.items() if times > 1}
        assert twice <= {(row["partition"], offset) for row in old for offset in row["offsets"]}


def count(run: AppRun, event: str) -> int:
    return sum(row["event"] == event for row in run.seen)


def shares(kafka: KafkaCluster, group: str) -> list[int]:
    if kafka.admin.group_state(group) != "STABLE":
        return []
    return sorted(len(share) for share in kafka.admin.members(group).values())
