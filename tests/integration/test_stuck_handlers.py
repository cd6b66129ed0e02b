"""A handler that never returns, while others work: the process ends in time, and what the others did is committed."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.frame_proxy import FrameAction, FrameProxy, always
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
PARTITIONS = 6
EACH = 4000
PATIENCE = 4.0
Done = dict[int, list[int]]


def start(kafka: KafkaCluster, topic: str, directory: Path, how: str, out: str = "") -> AppRun:
    settings = {
        "BESIDE_OUT": out,
        "BESIDE_SERVERS": kafka.bootstrap_servers,
        "BESIDE_TOPIC": topic,
        "BESIDE_GROUP": topic,
        "BESIDE_HOW": how,
    }
    return AppRun("tests.integration.apps.stuck_partition:app", directory, settings)


def offsets(run: AppRun, event: str) -> Done:
    """What the run has said of each partition, in its order."""
    found: Done = {partition: [] for partition in range(PARTITIONS)}
    for row in run.seen:
        if row["event"] == event:
            for first, last in row["runs"]:
                found[row["partition"]] += range(first, last + 1)
    return found


@pytest.mark.parametrize(
    ("how", "sig"),
    [("sleep", signal.SIGTERM), ("await", signal.SIGINT), ("gil", signal.SIGTERM), ("regex", signal.SIGINT)],
)
def test_everything_else_is_committed(kafka: KafkaCluster, topic: str, tmp_path: Path, how: str, sig: int) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    fill(kafka.bootstrap_servers, topic, EACH * PARTITIONS, partitions=PARTITIONS)
    with start(kafka, topic, tmp_path, how) as run:
        run.until_event("stuck", 60.0)
        assert kafka.admin.committed(topic) == {}, "only the stop commits"
        before = time.monotonic()
        assert run.stop(sig, seconds=30.0) == 2, run.output
        took = time.monotonic() - before
        did, marked, output = offsets(run, "did"), offsets(run, "marked"), run.output
    # Handlers get three quarters; a task that is cancelled then leaves the rest of the time unused.
    assert PATIENCE * 3 / 4 <= took < PATIENCE + 5.0, took
    assert "in get_stuck" in output, "the stack of the handler"
    assert re.search(rf"Beside\S* on {topic}\[0\]", output), "what it is stuck on"
    # Python ends the process itself if it can: its report is the better one.
    assert ("the interpreter has not ended it in time" in output) == (how in ("gil", "regex"))
    assert kafka.admin.members(topic) == {}, "the group was left"

    committed = kafka.admin.committed(topic)
    assert committed.get((topic, 0), 0) == 0, "nothing of the stuck handler's"
    assert sum(map(len, did.values())) < EACH * (PARTITIONS - 1), "the stop came under load"
    for partition in range(1, PARTITIONS):
        up_to = committed.get((topic, partition), 0)
        assert did[partition] == list(range(len(did[partition])))
        assert len(marked[partition]) <= up_to <= len(did[partition]), partition
        if how in ("sleep", "await"):
            assert up_to == len(did[partition]), "a handler that could end its job has nothing done twice"

    with start(kafka, topic, tmp_path, "no") as run:
        left = EACH * PARTITIONS - sum(committed.values())
        run.until(lambda: sum(map(len, offsets(run, "did").values())) >= left, 60.0, f"{left} more records")
        assert run.stop() == 0, run.output
        again = offsets(run, "did")
    for partition in range(PARTITIONS):
        # From where the first one has committed, in order, to the end: nothing lost, nothing marked done twice.
        assert again[partition] == list(range(committed.get((topic, partition), 0), EACH)), partition
    assert kafka.admin.lag(topic, [topic]) == 0


def test_nothing_is_committed_that_undelivered_records_stand_behind(
    broker: KafkaCluster, proxy: FrameProxy, topic: str, tmp_path: Path
) -> None:
    """Not even by the threads that end a process whose interpreter hangs."""
    out = f"{topic}-out"
    broker.create_topic(f"{topic}-in", partitions=2)
    broker.create_topic(out)
    fill(broker.bootstrap_servers, f"{topic}-in", 2000, partitions=2)
    proxy.treat(requests=always(FrameAction.DROP))
    with start(broker, f"{topic}-in", tmp_path, "gil", out) as run:
        run.until_event("stuck", 60.0)
        assert run.stop(seconds=30.0) == 2, run.output
        assert any(offsets(run, "marked").values())
    assert set(broker.admin.committed(f"{topic}-in").values()) <= {0}
    assert broker.admin.members(f"{topic}-in") == {}, "the group was left all the same"
