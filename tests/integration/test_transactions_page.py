"""Runs the code of docs/transactions.md."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

import grete
from tests.integration.test_transactions import committed
from tests.kafka import KafkaCluster, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(90)]

PAGE = Path(__file__).parents[2] / "docs" / "transactions.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def prepared(kafka: KafkaCluster, block: str, prefix: str) -> str:
    """The block with this cluster, and names of its own."""
    text = block.replace("localhost:9092", kafka.bootstrap_servers)
    return re.sub(r'"(payments|audit|orders|payments-1)"', rf'"{prefix}-\1"', text)


def test_every_block_is_run_here() -> None:
    assert len(BLOCKS) == 2


def test_the_first_block(kafka: KafkaCluster, topic: str) -> None:
    for name in ("payments", "audit"):
        kafka.create_topic(f"{topic}-{name}")
    exec(prepared(kafka, BLOCKS[0], topic), {})  # the code of the page
    assert committed(kafka, f"{topic}-payments") == [b"10 EUR"]
    assert committed(kafka, f"{topic}-audit") == [b"ann paid"]


def test_consume_transform_produce(kafka: KafkaCluster, topic: str) -> None:
    orders, payments = f"{topic}-orders", f"{topic}-payments"
    kafka.create_topic(orders)
    kafka.create_topic(payments)
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.produce_many(orders, [b"%d" % index for index in range(5)]).wait(30.0)
    names: dict[str, Any] = {"grete": grete}
    thread = threading.Thread(target=exec, args=(prepared(kafka, BLOCKS[1], topic), names))
    thread.start()
    try:
        eventually(lambda: kafka.admin.committed(payments) == {(orders, 0): 5}, 60, "the offsets")
    finally:
        names["consumer"].close()
        thread.join()
    assert committed(kafka, payments) == [b"paid %d" % index for index in range(5)]
