"""Brokers that die while records are read."""

from __future__ import annotations

import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.integration.conftest import StartRecorder
from tests.integration.recorder_check import Ledger
from tests.kafka import KafkaCluster, eventually, fill, new_cluster

pytestmark = pytest.mark.kafka
PARTITIONS = 6


def kill_and_restart(tmp_path: Path, start: StartRecorder, away: float) -> None:
    with new_cluster() as kafka:
        kafka.create_topic("orders", partitions=PARTITIONS)
        fill(kafka.bootstrap_servers, "orders", 60_000, partitions=PARTITIONS)
        run = start(kafka, "orders", "billing", work=0.02, max_messages=200, session_ms=45_000)
        run.until(lambda: Ledger(tmp_path).count >= 10_000, 60.0, "some records")
        kafka.kill(1, signal.SIGKILL)
        # Not a wait for something: the absence itself is what is tested.
        threading.Event().wait(away)
        assert run.process.poll() is None, run.output
        kafka.start(1)
        fill(kafka.bootstrap_servers, "orders", 6000, partitions=PARTITIONS, first_index=60_000)
        ends = dict.fromkeys(range(PARTITIONS), 11_000)
        run.until(lambda: kafka.admin.lag("billing", ["orders"]) == 0, 90.0, "no lag after the restart")
        assert run.stop(signal.SIGTERM) == 0, run.output
    ledger = Ledger(tmp_path)
    ledger.assert_everything(ends)
    ledger.assert_checksums(PARTITIONS, 100)


@pytest.mark.timeout(200)
def test_killed_broker_away_for_five_seconds(tmp_path: Path, start_recorder: StartRecorder) -> None:
    kill_and_restart(tmp_path, start_recorder, away=5.0)


@pytest.mark.soak
def test_killed_broker_away_for_twenty_seconds(tmp_path: Path, start_recorder: StartRecorder) -> None:
    kill_and_restart(tmp_path, start_recorder, away=20.0)


@pytest.mark.soak
def test_killed_broker_away_for_longer_than_the_session(tmp_path: Path, start_recorder: StartRecorder) -> None:
    kill_and_restart(tmp_path, start_recorder, away=60.0)


def all_led_by(kafka: KafkaCluster, nodes: set[int]) -> bool:
    return set(kafka.admin.leaders("orders").values()) <= nodes


def has_seen(directory: Path, count: int) -> bool:
    return Ledger(directory).count >= count


@pytest.mark.timeout(200)
def test_leaders_and_the_coordinator_move(tmp_path: Path, start_recorder: StartRecorder) -> None:
    with new_cluster(nodes=3) as kafka:
        kafka.create_topic("orders", partitions=PARTITIONS)
        fill(kafka.bootstrap_servers, "orders", 30_000, partitions=PARTITIONS)
        run = start_recorder(kafka, "orders", "billing", work=0.02, max_messages=200)
        written = 30_000
        # Each broker in turn, so that the group's coordinator is among them whichever it is.
        for node in kafka.nodes:
            kafka.kill(node, signal.SIGKILL)
            others = set(kafka.nodes) - {node}
            eventually(partial(all_led_by, kafka, others), 60.0, "new leaders")
            fill(kafka.bootstrap_servers, "orders", 3000, partitions=PARTITIONS, first_index=written)
            run.until(partial(has_seen, tmp_path, written), 90.0, f"{written} records without node {node}")
            written += 3000
            kafka.start(node)
        run.until(lambda: kafka.admin.lag("billing", ["orders"]) == 0, 90.0, "no lag")
        assert run.stop(signal.SIGTERM) == 0, run.output
    ledger = Ledger(tmp_path)
    ledger.assert_everything(dict.fromkeys(range(PARTITIONS), written // PARTITIONS))
    ledger.assert_checksums(PARTITIONS, 100)


@pytest.mark.timeout(200)
def test_a_broker_that_hangs_for_a_while(tmp_path: Path, start_recorder: StartRecorder) -> None:
    """SIGSTOP: connections stay open, and the broker answers nothing."""
    with new_cluster() as kafka:
        kafka.create_topic("orders", partitions=PARTITIONS)
        fill(kafka.bootstrap_servers, "orders", 30_000, partitions=PARTITIONS)
        run = start_recorder(kafka, "orders", "billing", work=0.02, max_messages=200, session_ms=45_000)
        run.until(lambda: Ledger(tmp_path).count >= 5000, 60.0, "some records")
        kafka.kill(1, signal.SIGSTOP)
        threading.Event().wait(4.0)
        kafka.kill(1, signal.SIGCONT)
        run.until(lambda: kafka.admin.lag("billing", ["orders"]) == 0, 90.0, "no lag")
        assert run.stop(signal.SIGTERM) == 0, run.output
    Ledger(tmp_path).assert_everything(dict.fromkeys(range(PARTITIONS), 5000))


@pytest.mark.timeout(200)
def test_a_coordinator_that_hangs_is_replaced(tmp_path: Path, start_recorder: StartRecorder) -> None:
    """SIGSTOP, and no SIGCONT: the other brokers take over all that it did, and no client waits for it."""
    with new_cluster(nodes=3) as kafka:
        kafka.create_topic("orders", partitions=PARTITIONS)
        fill(kafka.bootstrap_servers, "orders", 6000, partitions=PARTITIONS)
        run = start_recorder(kafka, "orders", "billing", session_ms=6000)
        run.until(lambda: kafka.admin.lag("billing", ["orders"]) == 0, 60.0, "no lag")
        hung = kafka.admin.coordinator("billing")
        kafka.kill(hung, signal.SIGSTOP)
        eventually(partial(all_led_by, kafka, set(kafka.nodes) - {hung}), 60.0, "new leaders")
        fill(kafka.bootstrap_servers, "orders", 6000, partitions=PARTITIONS, first_index=6000)
        run.until(partial(has_seen, tmp_path, 12_000), 60.0, "the records written without it")
        run.until(lambda: kafka.admin.lag("billing", ["orders"]) == 0, 60.0, "no lag")
        assert run.stop(signal.SIGTERM) == 0, run.output
    ledger = Ledger(tmp_path)
    ledger.assert_everything(dict.fromkeys(range(PARTITIONS), 2000))
