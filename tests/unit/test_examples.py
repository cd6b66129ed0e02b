"""Examples are what users copy: each can be imported, and each declares what it says."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from examples import accounts, enrich, observe, orders
from grete import DecodeError
from grete._config import layers
from grete._routing.routes import Route

EXAMPLES = Path(accounts.__file__).parent
SINGLE_FILES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", SINGLE_FILES)
def test_the_environment_names_the_brokers_of_a_single_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", "elsewhere:9093")
    app = importlib.import_module(f"examples.{name}").app
    monkeypatch.setattr(app, "_command_line", layers.Layer())  # another test of this process may have set it
    assert app.settings().kafka["bootstrap.servers"].value == "elsewhere:9093"
    assert "export GRETE_KAFKA_BOOTSTRAP_SERVERS=" in (EXAMPLES / f"{name}.py").read_text()


def test_no_example_has_an_address_that_the_environment_cannot_change() -> None:
    found = [
        f"{path.relative_to(EXAMPLES)}: {line.strip()}"
        for path in EXAMPLES.rglob("*.py")
        for line in path.read_text().splitlines()
        if "localhost:9092" in line and "environ" not in line and "export " not in line
    ]
    assert found == []


def declared(route: Route) -> tuple[tuple[str, ...], str, bool, str, str | None]:
    return tuple(route.topics), route.style, route.is_async, route.concurrency, route.dead_letter


def test_orders_are_a_class_with_payload_retry_and_dead_letters() -> None:
    totals, clicks = orders.app.routes
    assert declared(totals) == (("orders",), "class", False, "partition", "orders.dlq")
    assert totals.retry.attempts == 3
    assert not totals.retry.is_retriable(DecodeError("", topic="orders", partition=0, offset=0))
    decoders = totals.decoders()
    assert decoders is not None
    assert decoders["orders"](b'{"amount": 3}') == orders.Order(3)
    assert declared(clicks) == (("clicks",), "messages", False, "partition", None)


def test_enrich_is_asynchronous() -> None:
    (route,) = enrich.app.routes
    assert declared(route) == (("signups",), "class", True, "key", "signups.dlq")
    assert not route.retry.is_retriable(KeyError("XX"))


def test_accounts_go_key_by_key() -> None:
    (route,) = accounts.app.routes
    assert declared(route) == (("movements",), "message", False, "key", "movements.dlq")
    decoders = route.decoders()
    assert decoders is not None
    assert decoders["movements"](b"-3") == -3


def test_an_app_that_one_can_look_into_has_listeners_of_its_own_and_of_others() -> None:
    (route,) = observe.app.routes
    assert declared(route) == (("payments",), "payload", False, "partition", "payments.dlq")
    monitor = observe.app.monitor
    heard = {name: len(monitor.event(name)) for name in monitor if monitor.event(name)}
    assert heard["shop.charged"] == heard["job.finished"] == heard["statistics.emitted"] == 1


def test_a_swarm_loads_once_what_its_nodes_share(monkeypatch: pytest.MonkeyPatch) -> None:
    # One of its own: another test of this process may have run the App, and so loaded the prices.
    monkeypatch.delitem(sys.modules, "examples.swarm", raising=False)
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
    swarm = importlib.import_module("examples.swarm")
    (route,) = swarm.app.routes
    assert declared(route) == (("baskets",), "class", False, "partition", None)
    settings = swarm.app.settings()
    assert (settings["handler_timeout"], settings.swarm.max_rss) == (30.0, 500 << 20)
    assert len(swarm.prices) == 0, "nothing is loaded at import"
    swarm.app.preloads.run()
    assert len(swarm.prices) == swarm.ITEMS
    decoders = route.decoders()
    assert decoders is not None
    assert decoders["baskets"](b'{"items": [1]}') == swarm.Basket([1])
    assert 0.0 <= swarm.risk(100.0) <= 1.0
