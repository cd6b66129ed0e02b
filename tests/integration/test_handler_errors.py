"""A handler that raises: told loudly, waited for, run again from the first record that is not marked."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.apprun import AppRun
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
TARGET = "tests.integration.apps.failing:app"


def test_retried_from_the_first_unmarked_record(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    settings = {
        "FAILING_SERVERS": kafka.bootstrap_servers,
        "FAILING_TOPIC": topic,
        "FAILING_GROUP": topic,
        "FAILING_TIMES": 3,
        "FAILING_OFFSET": 60,
    }
    with AppRun(TARGET, tmp_path, settings) as run:
        run.until_event("done", 60.0, partition=0)
        run.until_event("done", 60.0, partition=1)
        run.until(lambda: kafka.admin.lag(topic, [topic]) == 0, 30.0, "all committed")
        assert run.stop() == 0, run.output
        output = run.output
        tries = [row for row in run.seen if row["event"] == "run" and row["partition"] == 0]
        others = [row for row in run.seen if row["event"] == "run" and row["partition"] == 1]
    # It may have come in more than one batch; those before the one that fails have one run each.
    failing = [row for row in tries if any(first <= 60 <= last for first, last in row["runs"])]
    assert [row["attempt"] for row in failing] == [1, 2, 3, 4]
    for again in failing[1:]:
        assert again["runs"][0][0] == 50, "offsets below 50 were marked"
    assert all(row["attempt"] == 1 for row in others)
    waits = [(after["at"] - before["at"]) / 1e9 for before, after in pairwise(failing)]
    assert waits[0] > 0.05, f"a pause before the first retry: {waits}"
    assert waits[2] > waits[0], f"and it grows: {waits}"
    assert output.count("Traceback") == 3
    assert f"{topic}[0] offsets 50..99, attempt 3" in output
    assert "ValueError: attempt 3 does not like offset 60" in output
    # The other partition did not wait for it.
    done = next(row for row in run.seen if row["event"] == "done" and row["partition"] == 1)
    assert done["at"] < failing[-1]["at"]


def test_nothing_unmarked_is_committed_while_it_fails(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 100)
    settings = {
        "FAILING_SERVERS": kafka.bootstrap_servers,
        "FAILING_TOPIC": topic,
        "FAILING_GROUP": topic,
        "FAILING_TIMES": 1_000_000,
    }
    with AppRun(TARGET, tmp_path, settings) as run:
        run.until_event("run", 60.0, partition=0, attempt=3)
        # Marks up to 49 are good; the bad record holds back the rest, at the clean stop, too.
        assert run.stop() == 0, run.output
    assert kafka.admin.committed(topic) == {(topic, 0): 50}
