"""SIGINT and SIGTERM: jobs in flight end, offsets are committed, the group is left, exit 0. Or, after the limit, 2."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.integration.conftest import StartRecorder
from tests.integration.recorder_check import Ledger
from tests.kafka import KafkaCluster, fill, new_cluster

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_finishes_the_job_in_flight(
    kafka: KafkaCluster, topic: str, start_recorder: StartRecorder, tmp_path: Path, sig: int
) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 2000, partitions=2)
    run = start_recorder(kafka, topic, topic, work=1.0, max_messages=100, workers=2)
    run.until_event("begin", 30.0)
    assert run.stop(sig) == 0, run.output
    begun = sum(row["event"] == "begin" for row in run.seen)
    ledger = Ledger(tmp_path)
    assert len(ledger.batches) == begun, "each job that began was finished"
    done = {(topic, batch.partition): batch.runs[-1][1] + 1 for batch in ledger.batches}
    assert kafka.admin.committed(topic) == done
    assert kafka.admin.members(topic) == {}
    assert any(row["event"] == "shutdown" for row in run.seen)
    assert "Traceback" not in run.output


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_stops_at_once_when_idle(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder, sig: int) -> None:
    kafka.create_topic(topic, partitions=2)
    run = start_recorder(kafka, topic, topic)
    run.until(lambda: kafka.admin.members(topic), 30.0, "a member")
    started = time.monotonic()
    assert run.stop(sig) == 0, run.output
    assert time.monotonic() - started < 5.0


def test_stops_while_no_broker_answers(topic: str, start_recorder: StartRecorder, kafka: KafkaCluster) -> None:
    with new_cluster() as own:
        own.create_topic("orders", partitions=2)
        run = start_recorder(own, "orders", "billing", shutdown_timeout="10s")
        run.until(lambda: own.admin.members("billing"), 30.0, "a member")
        own.kill(1)
        started = time.monotonic()
        status = run.stop(seconds=20.0)
        assert time.monotonic() - started < 12.0
        # The group could not be left, and that may be an error; but nothing hung, so nothing had to be forced.
        assert status in (0, 1), run.output
        assert "Traceback" not in run.output


def test_a_second_ctrl_c_forces_the_end(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    run = start_recorder(kafka, topic, topic, work=60.0)
    run.until_event("begin")
    os.kill(run.pid, signal.SIGINT)
    run.until(lambda: "stopping" in run.output, 10.0, "the first signal's log line")
    assert run.stop(signal.SIGINT, seconds=10.0) == 2, run.output
    assert "in consume" in run.output, "the stack of the handler"
    assert kafka.admin.members(topic) == {}, "there is still time for leaving the group"


def test_sigtstp_quiets(kafka: KafkaCluster, topic: str, start_recorder: StartRecorder, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    run = start_recorder(kafka, topic, topic, work=0.5, commit_ms=100)
    run.until_event("begin")
    os.kill(run.pid, signal.SIGTSTP)
    run.until(lambda: "SIGTSTP: quiet" in run.output, 10.0, "the signal's log line")
    fill(kafka.bootstrap_servers, topic, 10)
    run.until(lambda: kafka.admin.committed(topic) == {(topic, 0): 10}, 30.0, "the end of the job in flight")
    assert len(kafka.admin.members(topic)) == 1, "it stays in the group"
    assert run.stop() == 0, run.output
    assert Ledger(tmp_path).count == 10
    assert kafka.admin.committed(topic) == {(topic, 0): 10}
