"""What befalls all of a swarm at once - Kafka is away, the supervisor stands still - costs no node."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.integration.recorder_check import Ledger
from tests.integration.swarm_process import start_worker
from tests.kafka import KafkaCluster, eventually, fill, new_cluster
from tests.kafka.processes import stands_still

pytestmark = [pytest.mark.kafka, pytest.mark.soak]
PARTITIONS = 6
REPORT_TIMEOUT = NOT_READY_TIMEOUT = 3.0


def test_kafka_is_away(tmp_path: Path) -> None:
    """Longer than a node may be without its place in its group: new nodes would do no better."""
    with new_cluster() as own:
        own.create_topic("orders", partitions=PARTITIONS)
        swarm = {"not_ready_timeout": NOT_READY_TIMEOUT}
        with start_worker(own, "orders", tmp_path, nodes=3, app={"swarm": swarm}) as run:
            pids = run.until_ready()
            fill(own.bootstrap_servers, "orders", 600, partitions=PARTITIONS)
            eventually(lambda: own.admin.lag("orders", ["orders"]) == 0, 60.0, "all is committed")
            own.kill(1)
            run.until_named("swarm.not_ready", seconds=60.0)
            assert run.pids() == pids
            own.start(1)
            assert run.until_ready() == pids, "all of them are the same still"
            assert not run.named("swarm.node.stopping")
            fill(own.bootstrap_servers, "orders", 600, partitions=PARTITIONS)
            eventually(lambda: own.admin.lag("orders", ["orders"]) == 0, 60.0, "all is committed")
            assert run.stop() == 0, run.output
    Ledger(tmp_path).assert_everything(dict.fromkeys(range(PARTITIONS), 200))


def test_the_supervisor_stands_still(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    """For longer than a node may be silent: it has not listened, and knows that."""
    kafka.create_topic(topic, partitions=PARTITIONS)
    with start_worker(kafka, topic, tmp_path, nodes=3, app={"swarm": {"report_timeout": REPORT_TIMEOUT}}) as run:
        pids = run.until_ready()
        os.kill(run.pid, signal.SIGSTOP)
        eventually(lambda: stands_still(run.pid), 10.0, "it stands still")
        until = time.monotonic() + 3 * REPORT_TIMEOUT
        fill(kafka.bootstrap_servers, topic, 600, partitions=PARTITIONS)
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "nodes need it for nothing")
        eventually(lambda: time.monotonic() > until, 60.0, "it stands still for long")
        os.kill(run.pid, signal.SIGCONT)
        run.until_named("swarm.supervisor_stalled")
        os.kill(pids[0], signal.SIGKILL)
        run.until_replaced(0, pids[0])
        assert [row["pid"] for row in run.named("swarm.node.died")] == [pids[0]]
        assert not run.named("swarm.node.stopping")
        assert run.stop() == 0, run.output
