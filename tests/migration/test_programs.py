"""Each pair of programs on one broker: the second continues where the first has stopped, and does the same."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from examples.migration.faststream import test_both
from tests.kafka import KafkaCluster, new_cluster
from tests.kafka.foreign_readers import Row
from tests.kafka.jars import ROOT
from tests.migration.programs import ORDERS, has, has_records, outcome, rows, running, write

pytestmark = pytest.mark.kafka

LIBRARIES = {
    "confluent_kafka": ("python", "-m", "examples.migration.confluent_kafka.before"),
    "aiokafka": ("python", "-m", "examples.migration.aiokafka.before"),
    "faststream": ("python", "-m", "examples.migration.faststream.before"),
    "faust": ("faust", "-A", "examples.migration.faust.before", "worker"),
}
REFUSED = len(ORDERS) // 5


@pytest.fixture
def broker() -> Iterator[KafkaCluster]:
    """A broker with the topics of the programs, and no others."""
    with new_cluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        for topic in ("invoices", "orders.dlq"):
            cluster.create_topic(topic, partitions=1)
        yield cluster


@pytest.mark.parametrize("library", LIBRARIES)
def test_both_do_the_same(broker: KafkaCluster, tmp_path: Path, library: str) -> None:
    write(broker)
    with running(broker, tmp_path, *LIBRARIES[library]) as until:
        until(lambda: has(broker, {"invoices": len(ORDERS) - REFUSED, "orders.dlq": REFUSED}))
    before = outcome(broker)
    assert sum(map(len, before.invoices.values())) == len(ORDERS) - REFUSED
    # The same group, so Grete gets the new orders alone.
    write(broker)
    with running(broker, tmp_path, "grete", "run", f"examples.migration.{library}.after:app") as until:
        until(lambda: has(broker, {"invoices": 2 * (len(ORDERS) - REFUSED), "orders.dlq": 2 * REFUSED}))
    assert outcome(broker, skip=before) == before


def test_members_of_both_share_a_group_with_an_assignor_that_both_have(broker: KafkaCluster, tmp_path: Path) -> None:
    after = ("grete", "run", "examples.migration.confluent_kafka.after:app")
    with (
        running(broker, tmp_path, *LIBRARIES["confluent_kafka"]),
        running(broker, tmp_path, *after, GRETE_KAFKA_PARTITION_ASSIGNMENT_STRATEGY="range") as until,
    ):
        until(lambda: sorted(len(owned) for owned in broker.admin.members("billing").values()) == [1, 1])
        write(broker)
        until(lambda: has(broker, {"invoices": len(ORDERS) - REFUSED, "orders.dlq": REFUSED}))


def test_celery_and_grete_make_the_same_invoices(broker: KafkaCluster, tmp_path: Path) -> None:
    orders = [json.loads(value) for _, value in ORDERS]
    place = f"from examples.migration.celery.before import charge; [charge.delay(order) for order in {orders!r}]"
    environment = {**os.environ, "KAFKA": broker.bootstrap_servers}
    subprocess.run([sys.executable, "-c", place], cwd=ROOT, env=environment, check=True, timeout=60)
    worker = (
        "celery",
        "-A",
        "examples.migration.celery.before",
        "worker",
        "-Q",
        "charge",
        "--concurrency",
        "2",
        "-l",
        "info",
    )
    # Two further attempts of each refused order are messages of their own.
    sent = {"charge": len(ORDERS) + 2 * REFUSED, "invoice": len(ORDERS) - REFUSED, "failed": REFUSED}
    with running(broker, tmp_path, *worker) as until:
        until(lambda: has_records(broker, sent))
    write(broker)
    with running(broker, tmp_path, "grete", "run", "examples.migration.celery.after:app") as until:
        until(lambda: has(broker, {"invoices": len(ORDERS) - REFUSED, "orders.dlq": REFUSED}))
    after = outcome(broker)
    by_order = itemgetter("order")
    made = sorted((arguments(row)[0] for row in rows(broker, "invoice")), key=by_order)
    assert made == sorted(itertools.chain(*after.invoices.values()), key=by_order)
    refused = sorted(arguments(row)[0]["id"] for row in rows(broker, "failed"))
    assert refused == sorted(json.loads(value)["id"] for _, value in after.dead)


def arguments(row: Row) -> list[Any]:
    """Returns the positional arguments of the task in a message of Celery."""
    body = json.loads(base64.b64decode(json.loads(row.value or b"")["body"]))
    assert isinstance(body[0], list)
    return body[0]


def test_the_counterpart_of_karafkas_program(broker: KafkaCluster, tmp_path: Path) -> None:
    write(broker)
    with running(broker, tmp_path, "grete", "run", "examples.migration.karafka.after:app") as until:
        until(lambda: has(broker, {"invoices": len(ORDERS) - REFUSED, "orders.dlq": REFUSED}))
    after = outcome(broker)
    assert after.invoices[b"customer-1"][0] == {"order": "order-1", "total": 119}
    assert [json.loads(value)["amount"] for _, value in after.dead] == [0] * REFUSED


def test_the_tests_of_the_guide_for_faststream() -> None:
    test_both.test_with_faststream()
    test_both.test_with_grete()
