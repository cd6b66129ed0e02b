"""Marks beyond the committed offset are kept in its metadata, so that a restart repeats the open records only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.apprun import AppRun
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
TARGET = "tests.integration.apps.marker:app"
# Of offset 3: then one open, 3 marked; one open, 3 marked; one open, 8 marked.
KEPT = (3, "grete1:AwACAAIABw")


def test_a_restart_repeats_what_was_open(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 20)
    settings = {"MARKER_SERVERS": kafka.bootstrap_servers, "MARKER_TOPIC": topic, "MARKER_GROUP": topic}
    with AppRun(TARGET, tmp_path / "first", settings | {"MARKER_OPEN": "3 7 11"}) as run:
        # Stored while it runs: a process that is killed keeps it, too.
        run.until(lambda: kafka.admin.stored(topic, topic) == KEPT, 60.0, "the marks are in the commit's metadata")
        assert run.stop() == 0, run.output
    assert kafka.admin.stored(topic, topic) == KEPT
    with AppRun(TARGET, tmp_path / "second", settings) as run:
        run.until(lambda: kafka.admin.stored(topic, topic) == (20, ""), 60.0, "all are processed")
        assert run.stop() == 0, run.output
        assert [span for row in run.seen if row["event"] == "run" for span in row["runs"]] == [[3, 3], [7, 7], [11, 11]]
