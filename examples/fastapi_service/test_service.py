"""Tests of the service: its handler, its endpoints without a broker, and both on an embedded broker."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from examples.fastapi_service import service
from examples.fastapi_service.service import Order, Receipt, api, app, orders
from grete import testing


def test_a_customer_has_spent_the_sum() -> None:
    run = testing.consume(app, orders, [Order(id="a", amount=100), Order(id="b", amount=20)], key="ann")
    assert run.published == [Receipt(order="a", spent=100), Receipt(order="b", spent=120)]


def test_a_record_that_is_no_order_is_a_dead_letter() -> None:
    run = testing.consume(app, orders, [b'{"id": "a", "amount": -1}'], key="ann")
    assert [letter.error for letter in run.dead] == ["DecodeError"]


class Outbox:
    """Stands for the producer in tests of endpoints."""

    def __init__(self) -> None:
        self.sent: list[tuple[object, object, object]] = []

    async def send(self, topic: object, value: object, *, key: object) -> Any:
        self.sent.append((topic, value, key))
        return testing.Record(b"", partition=0, offset=len(self.sent) - 1)


def test_an_endpoint_without_a_broker() -> None:
    outbox = Outbox()
    (dependency,) = [
        parameter.dependency
        for parameter in service.Kafka.__metadata__  # type: ignore[attr-defined]
    ]
    api.dependency_overrides[dependency] = lambda: outbox
    try:
        client = TestClient(api)  # not entered: the App does not start
        assert client.post("/customers/ann/orders", json={"id": "a", "amount": 3}).json() == {
            "partition": 0,
            "offset": 0,
        }
        assert client.post("/customers/ann/orders", json={"id": "b", "amount": 0}).status_code == 422
    finally:
        api.dependency_overrides.clear()
    assert outbox.sent == [(orders, Order(id="a", amount=3), "ann")]


@pytest.mark.kafka(topics={"orders": 2, "receipts": 1, "orders.dlq": 1})
def test_from_the_request_to_the_receipt(kafka: testing.Kafka) -> None:
    with kafka.run(app) as running:
        client = TestClient(api)
        for amount in (100, 20):
            assert client.post("/customers/ann/orders", json={"id": str(amount), "amount": amount}).status_code == 202
        running.settle()
        assert client.get("/customers/ann").json() == {"spent": 120}
        assert client.get("/ready").status_code == 200
    assert kafka.values("receipts", Receipt) == [Receipt(order="100", spent=100), Receipt(order="20", spent=120)]


@pytest.mark.kafka(topics={"orders": 1, "receipts": 1, "orders.dlq": 1})
def test_an_order_that_no_broker_takes_is_not_accepted(kafka: testing.Kafka) -> None:
    kafka.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", topic="orders")
    with kafka.run(app):
        response = TestClient(api).post("/customers/ann/orders", json={"id": "a", "amount": 5})
        assert (response.status_code, "TOPIC_AUTHORIZATION_FAILED" in response.text) == (503, True)


@pytest.mark.kafka(topics={"orders": 1, "receipts": 1, "orders.dlq": 1})
def test_the_server_starts_and_stops_the_app(kafka: testing.Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    with TestClient(api) as client:
        assert client.post("/customers/ann/orders", json={"id": "a", "amount": 5}).status_code == 202
        assert client.get("/customers/bob").json() == {"spent": 0}
    assert kafka.values("orders", Order) == [Order(id="a", amount=5)]
    # The stop has closed the producer.
    assert TestClient(api).get("/ready").status_code == 503
