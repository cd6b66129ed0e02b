"""Exactly-once Apps in a swarm: ids go by nodes, and a node that is killed leaves no id behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from grete.client import Admin
from tests.integration.exactly_once.reading import committed_records, fill
from tests.integration.exactly_once.test_processes import APP, COUNT, EXPECTED, VALUES, environment, progress
from tests.integration.swarm_process import SwarmRun
from tests.kafka import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


def test_nodes_that_are_killed_share_a_few_ids(kafka: KafkaCluster, topic: str, group: str, tmp_path: Path) -> None:
    fill(kafka, topic, VALUES, partitions=2, outputs=2)
    own = environment(kafka, topic, group, pause="0.01")
    with SwarmRun(APP, tmp_path, own, nodes=2) as run:
        pids = run.until_ready()
        for number, goal in enumerate((50, 150, 250, 350)):
            run.until(lambda goal=goal: progress(kafka, topic, group) >= goal, 60, f"{goal} records")  # type: ignore[misc]
            node = number % 2
            os.kill(pids[node], signal.SIGKILL)
            pids[node] = run.until_replaced(node, pids[node])
        run.until(lambda: progress(kafka, topic, group) == COUNT, 120, "all records")
        assert run.stop() == 0, run.output
    assert sorted(committed_records(kafka, f"{topic}.out", 2), key=str) == sorted(EXPECTED, key=str)
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        found = [one for one in admin.transactions() if one.transactional_id.startswith(group)]
    assert len(found) <= 2, "ids of the two nodes"
    assert {one.state for one in found} <= {"Empty", "CompleteCommit", "CompleteAbort"}
