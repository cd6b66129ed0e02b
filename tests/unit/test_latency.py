"""Latency budget: the fetch settings that follow from a budget, and what contradicts it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

import grete
from grete._config.latency import fetch_settings, smallest
from grete._config.layers import Config, Layer, consumer_config_pairs, parse_layer, resolve_config
from grete._routing.routes import Route, make_route

pytestmark = pytest.mark.usefixtures("empty_directory")

KAFKA = {"bootstrap.servers": "localhost:9092"}


def handle(messages: grete.Messages) -> None: ...


def route(**settings: object) -> Route:
    return make_route(0, ("orders",), handle, settings)


def config(settings: dict[str, object], kafka: Mapping[str, object] = KAFKA, **environment: str) -> Config:
    return resolve_config(parse_layer(settings, kafka, "code"), Layer(), environment)


def test_a_budget_becomes_fetch_settings() -> None:
    assert fetch_settings(0.0, {"fetch.min.bytes": "5"}) == {}
    assert fetch_settings(0.1, {}) == {"fetch.min.bytes": str(1 << 20), "fetch.max.wait.ms": "100"}
    assert dict(consumer_config_pairs({**KAFKA, "latency": "250ms"}))["fetch.max.wait.ms"] == "250"
    assert dict(consumer_config_pairs({**KAFKA, "latency": 0.29}))["fetch.max.wait.ms"] == "290"
    assert "fetch.min.bytes" not in dict(consumer_config_pairs(KAFKA))


@pytest.mark.parametrize("limit", ["max.partition.fetch.bytes", "fetch.message.max.bytes", "fetch.max.bytes"])
def test_the_minimum_fits_in_one_response(limit: str) -> None:
    assert fetch_settings(0.1, {limit: "4096"})["fetch.min.bytes"] == "4096"


@pytest.mark.parametrize("name", ["fetch.min.bytes", "fetch.max.wait.ms", "fetch.wait.max.ms"])
def test_an_explicit_fetch_setting_contradicts_a_budget(name: str) -> None:
    says = rf"latency=0\.1s and {name}=7"
    with pytest.raises(grete.ConfigError, match=says):
        consumer_config_pairs({**KAFKA, name: 7, "latency": "100ms"})
    with pytest.raises(grete.ConfigError, match=says):
        config({"latency": "100ms"}, {**KAFKA, name: 7})
    assert config({}, {**KAFKA, name: 7})["latency"] == 0.0


def test_max_wait_contradicts_a_budget() -> None:
    says = r"latency=0\.1s and max_wait=1s"
    with pytest.raises(grete.ConfigError, match=says):
        route(latency="100ms", max_wait="1s")
    with pytest.raises(grete.ConfigError, match=says):
        route(max_wait="1s").native_settings(config({"latency": "100ms"}))
    assert route(latency="100ms").native_settings(config({"max_wait": "1s"}))["max_wait"] == 0.0
    assert route(latency=0, max_wait="1s").native_settings(config({"latency": "100ms"}))["max_wait"] == 1.0


def test_the_smallest_budget_of_the_routes_counts() -> None:
    app = config({"latency": "200ms"})
    budgets = [one.latency_budget(app) for one in (route(), route(latency="50ms"), route(latency=0.5))]
    assert (budgets, smallest(budgets)) == ([0.2, 0.05, 0.5], 0.05)
    assert smallest([0.2, route(latency=0).latency_budget(app)]) == 0.0


def test_a_budget_comes_from_file_and_environment(empty_directory: Path) -> None:
    (empty_directory / "grete.toml").write_text('latency = "70ms"\n')
    assert config({})["latency"] == 0.07
    assert config({}, GRETE_LATENCY="30ms")["latency"] == 0.03


@pytest.mark.parametrize("value", ["0.5ms", "11s", -1, "fast", True])
def test_a_budget_has_bounds(value: object) -> None:
    with pytest.raises(grete.ConfigError, match="latency"):
        consumer_config_pairs({**KAFKA, "latency": value})
