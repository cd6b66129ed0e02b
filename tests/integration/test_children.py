"""Handlers that have children, under `grete run` and in a swarm: signals to these do not reach the App."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun, read_events
from tests.integration.swarm_process import SwarmRun
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
TARGET = "tests.integration.apps.child_processes:app"
RECORDS = 60


@pytest.mark.parametrize("command", ["run", "swarm"])
def test_the_app_goes_on_while_children_are_ended(
    kafka: KafkaCluster, topic: str, tmp_path: Path, command: str
) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, RECORDS)
    environment = {"PARENT_SERVERS": kafka.bootstrap_servers, "PARENT_TOPIC": topic, "PARENT_GROUP": topic}
    run = (
        SwarmRun(TARGET, tmp_path, environment, nodes=1)
        if command == "swarm"
        else AppRun(TARGET, tmp_path, environment)
    )
    with run:
        run.until(lambda: kafka.admin.committed(topic) == {(topic, 0): RECORDS}, 60.0, "all records")
        assert "stopping" not in run.output
        assert "quiet" not in run.output
        assert run.stop() == 0, run.output
        # One process, and each record once: none was stopped and started again.
        (noted,) = tmp_path.glob("*.jsonl")
        batches = list(read_events(noted))
        assert [offset for batch in batches for offset in batch["offsets"]] == list(range(RECORDS))
        squares = [0, 1, 4, 9]
        for batch in batches:
            assert (batch["pooled"], batch["executed"]) == (squares, squares)
            assert batch["statuses"] == [-signal.SIGTERM, -signal.SIGHUP, -signal.SIGKILL]
