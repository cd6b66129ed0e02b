"""Marks beyond the committed offset are kept in its metadata, so that a restart repeats the open records only."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import make
from tests.integration.app_process import AppRun
from tests.kafka import KafkaCluster, eventually, fill

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


@pytest.mark.parametrize(("settings", "repeated"), [({}, 19), ({"offset_map": True}, 0)], ids=["without", "with"])
def test_a_stop_says_what_a_restart_repeats(
    kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], repeated: int
) -> None:
    caplog.set_level(logging.INFO)
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 20)
    app = make(kafka, topic)

    @app.consumer(topic, concurrency="unordered", max_messages=1, **settings)
    def handler(message: grete.Message) -> None:
        if message.offset == 0:
            raise grete.RetryLater(600)

    app.start()
    try:
        eventually(lambda: app.statistics()["counts"]["records"] == 19, 60.0, "all but the first are processed")
        (lane,) = app.statistics()["lanes"]
        assert (lane["done_ahead"], lane["unmarked"]) == (19, 1)
    finally:
        app.stop()
    records = [record for record in caplog.records if getattr(record, "event", "") == "offset.done_ahead"]
    assert [(record.__dict__["records"], record.__dict__["partitions"]) for record in records] == (
        [(19, [(topic, 0)])] if repeated else []
    )
    if repeated:
        text = records[0].getMessage()
        assert text.startswith("19 processed records will be processed again")
        assert f"({topic}[0]@0); offset_map=True" in text
