"""Runs the code of docs/transactions.md."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

import grete
from tests.integration.exactly_once.reading import committed
from tests.kafka import KafkaCluster, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(90)]

PAGE = Path(__file__).parents[2] / "docs" / "transactions.md"
BLOCKS = re.findall(r"^```python(?: [^\n]*)?\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def prepared(kafka: KafkaCluster, block: str, prefix: str) -> str:
    """The block with this cluster, and names of its own."""
    text = block.replace("localhost:9092", kafka.bootstrap_servers)
    return re.sub(r'"(payments|audit|orders|orders\.dlq|database|payments-1)"', rf'"{prefix}-\1"', text)


def test_every_block_is_run_here() -> None:
    assert len(BLOCKS) == 5


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


def test_the_messages_of_an_aborted_transaction_are_processed_again(kafka: KafkaCluster, topic: str) -> None:
    orders, payments = f"{topic}-orders", f"{topic}-payments"
    kafka.create_topic(orders)
    kafka.create_topic(payments)
    names: dict[str, Any] = {}
    exec(prepared(kafka, BLOCKS[2], topic), names)
    brokers = {"bootstrap.servers": kafka.bootstrap_servers}
    with grete.client.Producer(brokers) as plain:
        plain.produce_many(orders, [b"%d" % index for index in range(3)]).wait(30.0)
    reading = {**brokers, "group.id": payments, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with (
        grete.client.Consumer(reading) as consumer,
        grete.client.Producer({**brokers, "transactional.id": payments}) as producer,
    ):
        consumer.subscribe([orders])
        messages = eventually(lambda: consumer.poll(1.0), 60)
        aborted = iter([True])

        class Once:
            """Producer whose first transaction is aborted."""

            def __getattr__(self, name: str) -> Any:
                if name == "send_offsets" and next(aborted, False):
                    raise grete.TransactionAbortedError("made up")
                return getattr(producer, name)

        names["pay"](messages, consumer, Once())
        assert committed(kafka, payments) == [b"paid %d" % index for index in range(3)]
        assert kafka.admin.committed(payments) == {(orders, 0): messages[-1].offset + 1}


def test_an_app(kafka: KafkaCluster, topic: str) -> None:
    for name in ("orders", "payments", "audit", "orders.dlq"):
        kafka.create_topic(f"{topic}-{name}")
    names: dict[str, Any] = {}
    exec(prepared(kafka, BLOCKS[3], topic), names)
    app: grete.App = names["app"]
    stored: dict[str, int] = {}

    class Database:
        def execute(self, _statement: str, values: tuple[str]) -> None:
            stored.setdefault(values[0], 1)

    names["connection"] = Database()
    once, names["app"] = app, grete.App(f"{topic}-effects")
    exec(prepared(kafka, BLOCKS[4], topic), names)
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    with grete.client.Producer(settings) as producer:
        producer.produce_many(
            f"{topic}-orders", [b'{"customer": 3, "amount": %d}' % amount for amount in range(4)]
        ).wait(30)
    for one in (once, names["app"]):
        one.override({}, settings)
    with once.running(), names["app"].running():
        eventually(lambda: len(committed(kafka, f"{topic}-payments")) == 4, 60, "the payments")
        eventually(lambda: len(stored) == 4, 60, "the effects")
    assert committed(kafka, f"{topic}-payments") == [b'{"paid":%d}' % amount for amount in range(4)]
    assert committed(kafka, f"{topic}-audit") == [b"3 paid"] * 4
    assert sorted(stored) == [f"{topic}-orders-0-{offset}" for offset in range(4)]
