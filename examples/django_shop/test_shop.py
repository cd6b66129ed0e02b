"""Tests of the handlers and of the endpoint: without a broker, and on an embedded one."""

import json
from typing import Any

import pytest
from django.test import Client
from shop import views
from shop.models import Invoice
from shop.stream import Order, app

from grete import testing


def invoices() -> list[tuple[str, int]]:
    return sorted(Invoice.objects.values_list("customer", "amount"))


def test_an_order_is_an_invoice() -> None:
    testing.consume(app, "orders", [Order("ada", 3), Order("bob", 5)]).raise_first()
    assert invoices() == [("ada", 3), ("bob", 5)]


def test_a_refund_by_an_async_handler() -> None:
    testing.consume(app, "refunds", [Order("ada", 1)]).raise_first()
    assert invoices() == [("ada", -1)]


@pytest.mark.kafka(topics={"orders": 2, "refunds": 1})
def test_from_the_request_to_the_invoice(
    kafka: testing.Kafka, settings_of_kafka: dict[str, Any], client: Client
) -> None:
    settings_of_kafka["bootstrap.servers"] = kafka.bootstrap_servers
    with kafka.run(app) as running:
        for amount in (3, 4):
            response = client.post("/customers/ada/orders", {"amount": amount})
            assert (response.status_code, list(json.loads(response.content))) == (202, ["offset"])
        assert client.get("/customers/ada/orders").status_code == 405
        running.settle()
    assert invoices() == [("ada", 3), ("ada", 4)]


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def settings_of_kafka() -> Any:
    """Kafka's settings of the project, which a test may change."""
    from django.conf import settings

    before = dict(settings.GRETE["kafka"])
    yield settings.GRETE["kafka"]
    views.producer().close()
    views.producer.cache_clear()
    settings.GRETE["kafka"].update(before)
