"""What a consumer costs that has nothing to do."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import StartRecorder
from tests.kafka import KafkaCluster, eventually

pytestmark = pytest.mark.kafka
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Of a whole process: voluntary context switches, CPU seconds."""

    switches: int
    cpu: float

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.switches - other.switches, self.cpu - other.cpu)


def usage(pid: int) -> Usage:
    switches = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                switches += int(line.split()[1])
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Usage(switches, (int(fields[11]) + int(fields[12])) / TICKS)


def idle(kafka: KafkaCluster, topic: str, start: StartRecorder, seconds: float) -> Usage:
    kafka.create_topic(topic, partitions=20)
    run = start(kafka, topic, topic, session_ms=45_000, heartbeat_ms=3000, commit_ms=5000)

    def settled() -> bool:
        return [len(share) for share in kafka.admin.members(topic).values()] == [20]

    run.until(settled, 60.0, "one member with 20 partitions")
    # The time itself is what is measured over; the first seconds still belong to the start.
    threading.Event().wait(2.0)
    before = usage(run.pid)
    threading.Event().wait(seconds)
    spent = usage(run.pid) - before
    assert run.stop() == 0
    return spent


def test_idle_app_sleeps(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder) -> None:
    spent = idle(kafka, topic, start_recorder, 5.0)
    # Below aiokafka's 7 switches a second; the Fetch long poll alone is two.
    assert spent.switches < 5.0 * 7, spent
    assert spent.cpu < 5.0 * 0.02, spent


@pytest.mark.soak
def test_idle_app_sleeps_for_thirty_seconds(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder) -> None:
    spent = idle(kafka, topic, start_recorder, 30.0)
    assert spent.switches < 30.0 * 7, spent
    assert spent.cpu < 30.0 * 0.005, spent


def test_topic_that_appears_later_is_read(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder) -> None:
    """Subscribed before the topic exists: found without a restart."""
    from tests.kafka import fill

    run = start_recorder(kafka, topic, topic)
    eventually(lambda: len(kafka.admin.members(topic)) == 1, 30.0, "a member without partitions")
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    run.until_event("batch", 60.0, partition=0)
    assert run.stop() == 0
