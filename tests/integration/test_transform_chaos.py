"""Consume, transform, produce, while brokers and processes fail: a committed offset never passes a missing output.

TRANSFORM_SEED is the seed of the first long round, TRANSFORM_ROUNDS and TRANSFORM_RECORDS their number and size.
TRANSFORM_CONTROL=1: the handlers wait for their deliveries. A round that fails then has another cause.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.transform_plan import Plan
from tests.integration.transform_round import Round
from tests.kafka import KafkaCluster, new_cluster

pytestmark = pytest.mark.kafka
ROUNDS = int(os.environ.get("TRANSFORM_ROUNDS", "50"))
RECORDS = int(os.environ.get("TRANSFORM_RECORDS", "200_000"))
FIRST_SEED = int(os.environ.get("TRANSFORM_SEED", time.time_ns() % 1_000_000))
CONTROL = bool(os.environ.get("TRANSFORM_CONTROL"))


@pytest.fixture(scope="module")
def one_broker() -> Iterator[KafkaCluster]:
    """A broker of our own, for it fails."""
    with new_cluster() as kafka:
        yield kafka


@pytest.fixture(scope="module", params=[1, 3])
def brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One broker, or three (replication 3, min.insync.replicas 2)."""
    with new_cluster(nodes=request.param) as kafka:
        yield kafka


def go(kafka: KafkaCluster, plan: Plan, directory: Path, count: int, pace: float) -> None:
    """One round; the brokers are fit for the next one, whatever has become of it."""
    one = Round(kafka, plan, directory, count, pace)
    outcome = "FAILED"
    try:
        one.run()
        outcome = "ok"
    finally:
        print(f"\n{one.summary}; {outcome}", flush=True)
        one.restore()


@pytest.mark.parametrize("seed", [2, 14, 17])
def test_no_offset_passes_a_missing_output(one_broker: KafkaCluster, tmp_path: Path, seed: int) -> None:
    go(one_broker, Plan.of(seed, CONTROL), tmp_path, 3000, pace=3.0)


@pytest.mark.soak
@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_offset_passes_a_missing_output_in_the_long_run(brokers: KafkaCluster, tmp_path: Path, number: int) -> None:
    go(brokers, Plan.of(FIRST_SEED + number, CONTROL), tmp_path, RECORDS, pace=10.0)
