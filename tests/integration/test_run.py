"""`grete run`: all records once and in order, over a stop and a start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.conftest import StartRecorder
from tests.integration.recorder_check import Ledger
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
PARTITIONS = 8


def run_with_a_stop_in_the_middle(
    kafka: KafkaCluster, topic: str, start: StartRecorder, directory: Path, count: int, work: float, seconds: float
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    fill(kafka.bootstrap_servers, topic, count, partitions=PARTITIONS)
    ends = dict.fromkeys(range(PARTITIONS), count // PARTITIONS)

    first = start(kafka, topic, topic, work=work, workers=3, slow_after=count // 3)
    first.until(lambda: Ledger(directory).count >= count // 3, seconds, "a third of the records")
    assert first.stop(signal.SIGTERM) == 0, first.output
    half = Ledger(directory)
    assert count // 3 <= half.count < count, "the stop must come in the middle"
    reached = {(topic, batch.partition): batch.runs[-1][1] + 1 for batch in half.batches}
    assert kafka.admin.committed(topic) == reached, "a clean stop commits all that was done"
    assert kafka.admin.members(topic) == {}, "a clean stop leaves the group"

    second = start(kafka, topic, topic, work=work, workers=3)
    second.until(lambda: Ledger(directory).count >= count, seconds, "all records")
    assert second.stop(signal.SIGTERM) == 0, second.output

    ledger = Ledger(directory)
    ledger.assert_exactly_once_in_order(ends)
    ledger.assert_checksums(PARTITIONS, 100)
    assert kafka.admin.lag(topic, [topic]) == 0
    for run in (first, second):
        assert "Traceback" not in run.output


def test_stop_in_the_middle_and_start_again(
    kafka: KafkaCluster, topic: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    run_with_a_stop_in_the_middle(kafka, topic, start_recorder, tmp_path, 200_000, work=0.005, seconds=60.0)


@pytest.mark.soak
def test_stop_in_the_middle_of_five_million(
    kafka: KafkaCluster, topic: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    count = int(os.environ.get("SOAK_RECORDS", "5000000"))
    run_with_a_stop_in_the_middle(kafka, topic, start_recorder, tmp_path, count, work=0.0, seconds=600.0)


def test_workers_are_busy_at_the_same_time(
    kafka: KafkaCluster, topic: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    fill(kafka.bootstrap_servers, topic, 20_000, partitions=PARTITIONS)
    run: AppRun = start_recorder(kafka, topic, topic, work=0.05, workers=3)
    run.until(lambda: Ledger(tmp_path).count >= 20_000, 60.0, "all records")
    assert run.stop() == 0
    most = at_once = 0
    moments = [(batch.begin, 1) for batch in Ledger(tmp_path).batches]
    moments += [(batch.end, -1) for batch in Ledger(tmp_path).batches]
    for _, step in sorted(moments):
        at_once += step
        most = max(most, at_once)
    assert most == 3


def test_read_committed_app_sees_no_aborted_record(
    kafka: KafkaCluster, topic: str, start_recorder: StartRecorder, tmp_path: Path
) -> None:
    from tests.kafka.foreign_producer import produce

    kafka.create_topic(topic, partitions=1)
    produce(kafka, topic, 1000, transaction=100, abort=2, properties={"transactional.id": topic})
    end = kafka.admin.end_offsets(topic)[0]
    run = start_recorder(kafka, topic, topic, isolation="read_committed")
    run.until(lambda: Ledger(tmp_path).count >= 500, 30.0, "500 records")
    assert run.stop() == 0
    ledger = Ledger(tmp_path)
    # Each transaction of 100 records takes 101 offsets; the odd ones were aborted.
    seen = [offset for batch in ledger.batches for first, last in batch.runs for offset in range(first, last + 1)]
    assert seen == [offset for offset in range(end) if (offset // 101) % 2 == 0 and offset % 101 != 100]
