"""A handler that raises: the error is logged; after a delay the handler runs again from the first unmarked record."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
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
    # A machine that is slow makes them longer, never shorter: each is compared with what it may be at the least.
    waits = [(after["at"] - before["at"]) / 1e9 for before, after in pairwise(failing)]
    assert all(wait >= 0.75 * 0.2 * 2**number for number, wait in enumerate(waits)), f"200 ms, and twice that: {waits}"
    assert output.count("Traceback") == 1, "with the first attempt"
    assert output.count(" failed (attempt ") == 3
    assert re.search(rf"{topic}\[0\]@60: \S+ failed \(attempt 3\b", output), output
    assert "ValueError: attempt 3 does not like offset 60" in output
    # The last attempt waits for the other partition: that one does not wait for it.


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
