"""`/metrics` of Apps on Kafka: all that the catalogue, the dashboard and the alerts name is there, and moves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.live_metrics import PARTITIONS, RECORDS, metered
from tests.integration.swarm_process import SwarmRun
from tests.kafka import KafkaCluster, eventually
from tests.unit import promql
from tests.unit.exposition import CATALOGUE, Exposition
from tests.unit.test_dashboard import expressions
from tests.unit.test_metrics_page import rows

pytestmark = pytest.mark.kafka

# Only Apps with exactly-once routes have them: tests/integration/exactly_once/test_jobs.py.
OF_TRANSACTIONS = {"grete_transactions_total", "grete_aborted_transactions_total"}


def total(exposition: Exposition, name: str, **labels: str) -> float:
    return sum(exposition.of(name, **labels).values())


def test_a_swarm_exports_all_documented_metrics(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    with metered(kafka, topic, tmp_path, nodes=2) as swarm:
        swarm.until("grete_records_total", RECORDS)
        swarm.until("grete_dead_letters_total", 1)
        swarm.until("grete_produced_records_total", RECORDS)
        now = swarm.until("grete_commits_total", 1)
        assert sorted(now.families) == sorted(set(rows()) - OF_TRANSACTIONS)
        assert sorted(rows()) == sorted(CATALOGUE)
        shown = [one for one in expressions() if not any(name in one for name in OF_TRANSACTIONS)]
        assert [wrong for expression in shown for wrong in promql.wrong(expression, now)] == []
        # It counts what has happened.
        assert total(now, "grete_job_failures_total") == 2
        assert total(now, "grete_retries_total") == 1
        assert total(now, "grete_handler_duration_seconds_count") >= total(now, "grete_job_failures_total")
        assert total(now, "grete_fetched_records_total") >= RECORDS + 1
        assert total(now, "grete_partitions") == PARTITIONS
        assert total(now, "grete_rebalances_total") >= 2
        assert total(now, "grete_lanes") == PARTITIONS
        assert set(now.of("grete_live").values()) == set(now.of("grete_ready").values()) == {1}
        assert all(value > 0 for value in now.of("grete_connections").values())
        # A node that keeps its GIL in a C call goes on reporting.
        assert isinstance(swarm.run, SwarmRun)
        pids = swarm.run.pids()
        swarm.run.harm(0, "gil")
        swarm.feed()
        held = swarm.until("grete_gil_wait_seconds", 2)
        assert held.one("grete_gil_wait_seconds", node="0") > 0
        assert held.one("grete_jobs_running", node="0") >= 1
        assert held.one("grete_oldest_job_seconds", node="0") >= 1
        assert total(held, "grete_lag_records", node="0") > 0
        assert total(held, "grete_swarm_metrics_complete") == 2
        # One that is killed begins anew; the other one goes on.
        os.kill(pids[0], signal.SIGKILL)
        swarm.run.until_replaced(0, pids[0])
        again = swarm.until("grete_swarm_restarts_total", 1)
        assert again.one("grete_swarm_exits_total", node="0", reason="SIGKILL") == 1
        assert total(again, "grete_records_total", node="1") >= total(now, "grete_records_total", node="1")
        eventually(lambda: total(swarm.metrics(), "grete_swarm_metrics_complete") == 2, 20.0, "both report all")
        assert total(swarm.metrics(), "grete_records_total", node="0") < RECORDS


def test_a_single_process_exports_all_metrics_but_a_swarms(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    with metered(kafka, topic, tmp_path, nodes=None) as alone:
        alone.until("grete_records_total", RECORDS)
        alone.until("grete_produced_records_total", RECORDS)
        now = alone.until("grete_commits_total", 1)
        assert sorted(now.families) == sorted(
            name for name in CATALOGUE if not name.startswith("grete_swarm_") and name not in OF_TRANSACTIONS
        )
        lag = alone.until("grete_last_progress_timestamp_seconds", 1).of("grete_lag_records", topic=topic)
        assert len(lag) == PARTITIONS
