"""Exactly-once Apps as processes: stopped, killed, fenced, and two at a time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.exactly_once.reading import committed_records, fill
from tests.kafka import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

APP = "tests.integration.exactly_once.app:app"
COUNT = 600
VALUES = [b"%04d" % number for number in range(COUNT)]
EXPECTED = sorted((value, b"%b-%d" % (value, number)) for value in VALUES for number in range(2))


def environment(kafka: KafkaCluster, topic: str, group: str, **settings: object) -> dict[str, object]:
    """Variables of the App; `settings` by the end of their name."""
    own = {"SERVERS": kafka.bootstrap_servers, "TOPIC": topic, "GROUP": group, **settings}
    return {f"EOS_{name.upper()}": value for name, value in own.items()}


def progress(kafka: KafkaCluster, topic: str, group: str) -> int:
    """Number of records that the group has committed."""
    found = kafka.admin.lag(group, [topic])
    return COUNT - found


def check_output(kafka: KafkaCluster, topic: str) -> None:
    """Each input is in the output once, in the order of its key."""
    found = committed_records(kafka, f"{topic}.out", 2)
    assert sorted(found, key=str) == sorted(EXPECTED, key=str)
    for partition_order in [found]:
        seen: dict[bytes | None, bytes] = {}
        for key, value in partition_order:
            assert seen.get(key, b"") < value, "the order of a key"
            seen[key] = value


@pytest.mark.parametrize("concurrency", ["partition", "key"])
def test_kills_and_restarts(kafka: KafkaCluster, topic: str, group: str, tmp_path: Path, concurrency: str) -> None:
    fill(kafka, topic, VALUES, partitions=2, outputs=2)
    own = environment(kafka, topic, group, concurrency=concurrency)
    for goal in (50, 200, 350):
        with AppRun(APP, tmp_path, own) as app:
            app.until(lambda goal=goal: progress(kafka, topic, group) >= goal, 60, f"{goal} records")  # type: ignore[misc]
            os.kill(app.pid, signal.SIGKILL)
            app.wait(10)
    with AppRun(APP, tmp_path, own) as app:
        app.until(lambda: " runs: " in app.output, 30, "the start")
        app.until(lambda: progress(kafka, topic, group) == COUNT, 90, "all records")
        assert app.stop() == 0
    check_output(kafka, topic)


def test_sigterm_commits_what_is_done(kafka: KafkaCluster, topic: str, group: str, tmp_path: Path) -> None:
    fill(kafka, topic, VALUES, partitions=2, outputs=2)
    # Only the stop commits.
    own = environment(kafka, topic, group, interval="60s")
    with AppRun(APP, tmp_path, own) as app:
        app.until(lambda: "runs" in app.output, 30, "the start")
        app.until(lambda: "fails once" in app.output, 30, "a record")
        assert app.stop() == 0
    done = progress(kafka, topic, group)
    assert done > 0
    assert len(committed_records(kafka, f"{topic}.out", 2)) == 2 * done
    with AppRun(APP, tmp_path, environment(kafka, topic, group)) as app:
        app.until(lambda: " runs: " in app.output, 30, "the start")
        app.until(lambda: progress(kafka, topic, group) == COUNT, 90, "all records")
        assert app.stop() == 0
    check_output(kafka, topic)


def test_two_processes_share_the_partitions(kafka: KafkaCluster, topic: str, group: str, tmp_path: Path) -> None:
    fill(kafka, topic, VALUES, partitions=2, outputs=2)
    own = environment(kafka, topic, group, pause="0.01")
    with AppRun(APP, tmp_path / "one", own) as one:
        one.until(lambda: progress(kafka, topic, group) >= 30, 60, "some records")
        with AppRun(APP, tmp_path / "two", own) as two:
            # The second one takes a partition over, and gives it back when it is killed.
            two.until(
                lambda: "is assigned" in two.output or "Assigned" in two.output or "runs" in two.output, 30, "two"
            )
            two.until(lambda: progress(kafka, topic, group) >= 250, 60, "more records")
            os.kill(two.pid, signal.SIGKILL)
        one.until(lambda: progress(kafka, topic, group) == COUNT, 90, "all records")
        assert one.stop() == 0
    check_output(kafka, topic)


def test_a_process_that_sleeps_through_its_session(kafka: KafkaCluster, topic: str, group: str, tmp_path: Path) -> None:
    fill(kafka, topic, VALUES, partitions=2, outputs=2)
    own = environment(kafka, topic, group, pause="0.005")
    with AppRun(APP, tmp_path / "one", own) as one, AppRun(APP, tmp_path / "two", own) as two:
        one.until(lambda: progress(kafka, topic, group) >= 100, 60, "some records")
        os.kill(one.pid, signal.SIGSTOP)
        try:
            two.until(lambda: progress(kafka, topic, group) == COUNT, 90, "all records, by the other one")
        finally:
            os.kill(one.pid, signal.SIGCONT)
        assert two.stop() == 0
        assert one.stop() == 0
    check_output(kafka, topic)
