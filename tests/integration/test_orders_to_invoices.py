"""The service of the examples on a broker: from its endpoint to an invoice, and to a dead letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from examples.orders_to_invoices import service
from examples.orders_to_invoices.test_service import test_orders_become_invoices as example_test
from tests.integration.app_in_process import dead_letters, header, until_done
from tests.integration.producers import values
from tests.integration.topic_reader import consumer, read_to
from tests.kafka import KafkaCluster, new_cluster

pytestmark = pytest.mark.kafka
FOLDER = Path(service.__file__).parent


def test_its_own_test() -> None:
    example_test()


def test_from_the_endpoint_to_the_invoice() -> None:
    # Topics of fixed names, so a cluster without the topics of other tests.
    with new_cluster() as kafka:
        from_the_endpoint_to_the_invoice(kafka)


def from_the_endpoint_to_the_invoice(kafka: KafkaCluster) -> None:
    for topic in ("orders", "invoices", "orders.dlq"):
        kafka.create_topic(topic, partitions=1)
    service.app.override(
        {"probes": "none"}, {"bootstrap.servers": kafka.bootstrap_servers, "auto.commit.interval.ms": "200"}
    )
    with TestClient(service.api) as client:
        for customer, order in (("ann", {"id": "a", "amount": 100}), ("bob", {"id": "b", "amount": 0})):
            assert client.post(f"/customers/{customer}/orders", json=order).status_code == 202
        assert client.post("/customers/eve/orders", json={"id": "c"}).status_code == 422
        until_done(kafka, service.app, "orders")
        assert "grete_records_total{" in service.app.metrics()
    assert values(kafka, "invoices") == [b'{"order":"a","total":119}']
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([("invoices", 0, "earliest")])
        assert [message.key for message in read_to(reader, {("invoices", 0): 1})["invoices", 0]] == [b"ann"]
    (letter,) = dead_letters(kafka, "orders.dlq")
    assert (letter.key, letter.value) == (b"bob", b'{"id":"b","amount":0}')
    assert header(letter, "grete.error.class") == "ValueError"


def test_the_page_counts_the_lines() -> None:
    page = (FOLDER / "README.md").read_text()
    lines = {path.name: len(path.read_text().splitlines()) for path in FOLDER.glob("*.py")}
    counted = [int(count) for count in re.findall(r"\| (\d+) \|", page)]
    service_lines = lines["service.py"] + lines["test_service.py"]
    assert counted == [service_lines, lines["with_faststream.py"], lines["with_confluent.py"]]
    assert service_lines <= 60
