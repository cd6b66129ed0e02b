"""The swarm's settings: all layers, units, ranges, origins."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grete
from grete._config import layers
from grete._config.layers import Layer, environment_layer, parse_layer, resolve_config
from grete._config.parsers import Setting
from grete._config.registry import ROUTE_SETTINGS, SETTINGS
from grete._config.swarm_settings import SWARM_SETTINGS
from tests.unit.config_layers import layers_in_order, winners

pytestmark = pytest.mark.usefixtures("empty_directory")

KAFKA = {"bootstrap.servers": "localhost:9092"}


def resolved(
    code: Mapping[str, object] | None = None,
    command_line: Mapping[str, object] | None = None,
    environment: dict[str, str] | None = None,
) -> layers.Config:
    return resolve_config(
        parse_layer({"swarm": code}, KAFKA, "code"),
        parse_layer({"swarm": command_line}, {}, "command line"),
        environment or {},
    )


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 5})
    swarm = resolved().swarm
    assert (swarm.nodes, swarm.max_rss, swarm.control, swarm.probes, swarm.cpus) == (3, None, "auto", None, "none")
    assert (swarm.gil_timeout, swarm.report_timeout, swarm.not_ready_timeout) == (30, 15, 300)
    assert (swarm.restart_backoff, swarm.ready_after, swarm.crash_loop_after) == ((1, 30), 10, 5)
    assert {value.origin for value in resolved().swarm_values.values()} == {"default"}


def test_each_layer_goes_before_those_below(empty_directory: Path) -> None:
    (empty_directory / "grete.toml").write_text('[swarm]\nnodes = 2\nmax_rss = "1GiB"\n')
    variable = "GRETE_SWARM_NODES"
    values = [
        resolved(code, command_line, environment).swarm_values["nodes"]
        for environment, code, command_line in layers_in_order(variable, "nodes")
    ]
    assert [(value.value, value.origin) for value in values] == winners(variable)
    assert resolved({"nodes": None}).swarm.max_rss == 1 << 30


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("max_rss", "none", None),
        ("gil_timeout", "none", math.inf),
        ("not_ready_timeout", "2m", 120.0),
        ("restart_backoff", "100ms..5s", (0.1, 5.0)),
        ("restart_backoff", "3s", (3.0, 3.0)),
        ("control", "none", None),
        ("control", Path("/run/x.sock"), "/run/x.sock"),
        ("probes", "8080", ("", 8080)),
        ("probes", 8080, ("", 8080)),
        ("probes", "127.0.0.1:80", ("127.0.0.1", 80)),
        ("probes", "[::1]:80", ("::1", 80)),
        ("probes", "none", None),
        ("cpus", "auto", "auto"),
        ("cpus", "0,2-4", (0, 2, 3, 4)),
        ("cpus", range(2), (0, 1)),
        ("cpus", "none", "none"),
    ],
)
def test_values_have_units_and_forms(name: str, given: object, value: object) -> None:
    assert getattr(resolved({name: given}).swarm, name) == value


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("nodes", 0, "whole number from 1 up, not 0"),
        ("nodes", "0", "whole number from 1 up, not 0"),
        ("nodes", 100_000, "the most is 1000"),
        ("nodes", {0: ["orders"]}, r'grete\.App\(\.\.\., nodes=\{0: \["orders"\]\}\)'),
        ("max_rss", 10, "10 bytes is less than a Python process needs"),
        ("max_rss", "10", "has no unit"),
        ("max_rss", "lots", "a number and a unit"),
        ("gil_timeout", "0s", "at least 1s, not '0s'; \"none\" switches it off"),
        ("report_timeout", "1s", r"at least 2s \(a node reports once a second\)"),
        ("report_timeout", "none", "a number and a unit"),
        ("restart_backoff", "5s..1s", 'did you mean "1s..5s"'),
        ("restart_backoff", 0, "below 1ms"),
        ("crash_loop_after", 0, "from 1 up"),
        ("control", "", '"auto" or "none"'),
        ("control", "/x" * 60, "at most 107 bytes, and this one 120"),
        ("probes", "http", "a port or"),
        ("probes", 65536, "up to 65535"),
        ("probes", "::1:80", "goes into brackets"),
        ("probes", True, "a port or"),
        ("cpus", "all", "a list of CPU numbers"),
        ("cpus", [], "not an empty one"),
        ("cpus", [0, -1], "a list of CPU numbers"),
        ("cpus", "3-1", "not an empty one"),
        ("cpus", [1, 1], "CPU 1 is named twice"),
        ("cpus", 2, "a list of CPU numbers"),
    ],
)
def test_wrong_values_name_themselves_and_the_cure(name: str, given: object, says: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"swarm\.{name} \(from code\): .*{says}") as caught:
        resolved({name: given})
    assert (caught.value.setting, caught.value.origin) == (f"swarm.{name}", "code")


def test_unknown_names_are_refused_with_the_nearest_or_the_right_place(empty_directory: Path) -> None:
    with pytest.raises(
        grete.ConfigError, match='GRETE_SWARM_NODE: the swarm has no setting "node"; did you mean "nodes"'
    ):
        environment_layer({"GRETE_SWARM_NODE": "3"})
    with pytest.raises(grete.ConfigError, match=r"swarm\.nodes \(from environment variable GRETE_SWARM_NODES\)"):
        environment_layer({"GRETE_SWARM_NODES": "-3"})
    with pytest.raises(grete.ConfigError, match=r"setting \"workers\": it is a setting of the App"):
        resolved({"workers": 3})
    with pytest.raises(grete.ConfigError, match=r'"max_rss": it is a setting of the swarm: .*swarm=\{"max_rss": '):
        parse_layer({"max_rss": "1GiB"}, {}, "code")
    with pytest.raises(grete.ConfigError, match='no setting "swarn"; did you mean "swarm"'):
        parse_layer({"swarn": {}}, {}, "code")
    with pytest.raises(grete.ConfigError, match=r"how many nodes there are is .*, or GRETE_SWARM_NODES"):
        environment_layer({"GRETE_NODES": "3"})
    with pytest.raises(grete.ConfigError, match=r"swarm \(from code\) is a table of settings"):
        parse_layer({"swarm": 4}, {}, "code")
    (empty_directory / "grete.toml").write_text("[swarm]\nmaxrss = 3\n")
    with pytest.raises(grete.ConfigError, match=r'\[swarm\] of grete.toml has no setting "maxrss"; did you mean "max_'):
        resolve_config(Layer(), Layer(), {})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PARSED: dict[str, Setting] = {
    **SWARM_SETTINGS,
    "App(nodes=)": SETTINGS["nodes"],
    "nodes of a route": ROUTE_SETTINGS["nodes"],
    "partitions": ROUTE_SETTINGS["partitions"],
}


@pytest.mark.parametrize("name", PARSED)
@settings(max_examples=30)
@given(value=ANYTHING)
def test_anything_is_read_or_refused(name: str, value: object) -> None:
    with contextlib.suppress(ValueError):  # and nothing else
        PARSED[name].parse(value)
