"""What a consumer costs that has nothing to do."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.conftest import StartRecorder
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Of a whole process: voluntary context switches, CPU seconds, and the time at which, or in which, it was so."""

    switches: int
    cpu: float
    seconds: float

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.switches - other.switches, self.cpu - other.cpu, self.seconds - other.seconds)


def usage(pid: int) -> Usage:
    switches = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                switches += int(line.split()[1])
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Usage(switches, (int(fields[11]) + int(fields[12])) / TICKS, time.monotonic())


def measured(run: AppRun, seconds: float) -> Usage:
    """What the run spends while nothing happens; then it is stopped."""
    # The time itself is what is measured over; the first seconds still belong to the start.
    threading.Event().wait(2.0)
    before = usage(run.pid)
    threading.Event().wait(seconds)
    spent = usage(run.pid) - before
    assert run.stop() == 0
    return spent


def idle(kafka: KafkaCluster, topic: str, start: StartRecorder, seconds: float) -> Usage:
    kafka.create_topic(topic, partitions=20)
    run = start(kafka, topic, topic, session_ms=45_000, heartbeat_ms=3000, commit_ms=5000)

    def settled() -> bool:
        return [len(share) for share in kafka.admin.members(topic).values()] == [20]

    run.until(settled, 60.0, "one member with 20 partitions")
    return measured(run, seconds)


def test_idle_app_sleeps(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder) -> None:
    spent = idle(kafka, topic, start_recorder, 5.0)
    # The Fetch long poll alone is two a second. What other processes take the processor for is not counted.
    assert spent.switches < spent.seconds * 5, spent
    assert spent.cpu < spent.seconds * 0.02, spent


def seen_all(run: AppRun, route: str, count: int) -> bool:
    return sum(int(row["count"]) for row in run.seen if row["route"] == route) == count


def test_an_app_that_has_worked_sleeps_again(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    """Threads, an event loop, a producer, and two groups, which are two connections that poll."""
    kafka.create_topic(topic, partitions=20)
    kafka.create_topic(f"{topic}-out")
    fill(kafka.bootstrap_servers, topic, 2000, partitions=20)
    settings = {"IDLER_SERVERS": kafka.bootstrap_servers, "IDLER_TOPIC": topic}
    with AppRun("tests.integration.apps.idle:app", tmp_path, settings) as run:
        for route in ("threads", "loop"):
            run.until(partial(seen_all, run, route, 2000), 60.0, f"all records by {route}")
        spent = measured(run, 12.0)
    # Each group may have its five.
    assert spent.switches < spent.seconds * 10, spent
    assert spent.cpu < spent.seconds * 0.02, spent


@pytest.mark.soak
def test_idle_app_sleeps_for_thirty_seconds(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder) -> None:
    spent = idle(kafka, topic, start_recorder, 30.0)
    assert spent.switches < spent.seconds * 5, spent
    assert spent.cpu < spent.seconds * 0.005, spent


def test_topic_that_appears_later_is_read(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder) -> None:
    """Subscribed before the topic exists: found without a restart."""
    run = start_recorder(kafka, topic, topic)
    eventually(lambda: len(kafka.admin.members(topic)) == 1, 30.0, "a member without partitions")
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    run.until_event("batch", 60.0, partition=0)
    assert run.stop() == 0
