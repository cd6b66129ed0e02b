"""Programs of the migration guides as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually
from tests.kafka.foreign_readers import Row, read_by_librdkafka
from tests.kafka.jars import ROOT
from tests.kafka.processes import end, spawn

PATIENCE = 90.0

ORDERS: list[tuple[bytes, bytes]] = [
    (b"customer-%d" % (number % 4), json.dumps({"id": f"order-{number}", "amount": 100 * (number % 5)}).encode())
    for number in range(20)
]
"""Records of the topic `orders`. Every fifth one has an amount of 0, which both programs refuse."""


@dataclass(frozen=True)
class Outcome:
    """Invoices in their order by key, and what went to the dead letter topic."""

    invoices: dict[bytes | None, list[Any]]
    dead: list[tuple[bytes | None, Any]]


def write(kafka: KafkaCluster, records: Sequence[tuple[bytes, bytes]] = ORDERS) -> None:
    with producer(kafka.bootstrap_servers) as target:
        target.produce_many("orders", list(records)).wait(30)


def outcome(kafka: KafkaCluster, skip: Outcome | None = None) -> Outcome:
    """Reads both topics, without the first records that `skip` consists of."""
    invoices: dict[bytes | None, list[Any]] = {}
    skipped = 0 if skip is None else sum(map(len, skip.invoices.values()))
    for row in rows(kafka, "invoices")[skipped:]:
        invoices.setdefault(row.key, []).append(json.loads(row.value or b""))
    dead = [(row.key, row.value) for row in rows(kafka, "orders.dlq")[0 if skip is None else len(skip.dead) :]]
    return Outcome(invoices, sorted(dead))


def rows(kafka: KafkaCluster, topic: str) -> list[Row]:
    return read_by_librdkafka(kafka, topic)


def has(kafka: KafkaCluster, counts: dict[str, int]) -> bool:
    """Whether the topics have so many records, and the group has committed all orders."""
    return has_records(kafka, counts) and kafka.admin.lag("billing", ["orders"]) == 0


def has_records(kafka: KafkaCluster, counts: dict[str, int]) -> bool:
    """Whether the topics have so many records; a topic that does not exist has none."""
    return counts == {topic: sum(kafka.admin.end_offsets(topic).values()) for topic in counts}


@contextmanager
def running(
    kafka: KafkaCluster, directory: Path, *words: str, **variables: str
) -> Iterator[Callable[[Callable[[], bool]], None]]:
    """Runs a command of this environment; yields a function that waits for a condition. SIGTERM ends the command."""
    command: list[str | Path] = [Path(sys.executable).parent / words[0], *words[1:]]
    environment = os.environ | {
        "KAFKA": kafka.bootstrap_servers,
        "GRETE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "GRETE_KAFKA_AUTO_COMMIT_INTERVAL_MS": "200",
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    log = directory / f"{len(list(directory.glob('*.log')))}.log"
    with log.open("wb") as output:
        process = spawn(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)

    def until(condition: Callable[[], bool]) -> None:
        def check() -> bool:
            assert process.poll() is None, f"{words} ended with {process.returncode}\n{log.read_text()[-6000:]}"
            return condition()

        eventually(check, PATIENCE, lambda: f"what {words} should do\n{log.read_text()[-6000:]}")

    try:
        yield until
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{words} did not end\n{log.read_text()[-6000:]}") from None
    finally:
        end(process)
