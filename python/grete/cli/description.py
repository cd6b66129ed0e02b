"""What `grete info` tells: of this Grete and this machine, of an App's settings and routes."""

import importlib.metadata
import math
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from grete import _core
from grete._secrets import masked
from grete.app import App
from grete.cli.table import table
from grete.config import Config, Value
from grete.routes import Route
from grete.swarm import pins

# What Grete works with when it is there.
_OPTIONAL = (
    "msgspec",
    "pydantic",
    "fastavro",
    "jsonschema",
    "protobuf",
    "confluent-kafka",
    "uvloop",
    "setproctitle",
    "prometheus-client",
    "opentelemetry-api",
    "pyarrow",
    "polars",
)

_SIZES = ("_bytes", "_rss")
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))


class Setting(TypedDict):
    """A setting as it counts. Durations are seconds, sizes bytes, secrets masked."""

    name: str
    value: Any
    origin: str


class RouteDescription(TypedDict):
    """A declaration."""

    topics: list[str]
    handler: str
    location: str
    group: str
    concurrency: str
    nodes: list[int] | None
    partitions: Any


class Description(TypedDict):
    """All that is told."""

    versions: dict[str, str | None]
    """None: not installed."""
    machine: dict[str, Any]
    app: str | None
    settings: list[Setting]
    swarm: list[Setting]
    kafka: list[Setting]
    """As given."""
    kafka_defaults: list[Setting]
    """The others, as a consumer has them."""
    routes: list[RouteDescription]


def describe(app: App | None, config: Config) -> Description:
    """Of an App, or of what grete.toml and the environment say. Opens no socket. Raises ConfigError."""
    return {
        "versions": {
            "grete": _core.__version__,
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            **{name: _version(name) for name in _OPTIONAL},
        },
        "machine": {
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "usable_cpus": _usable(),
            "pidfd": _pidfd(),
            "gil": _gil(),
        },
        "app": app.name if app is not None else None,
        "settings": _settings(config.settings),
        "swarm": _settings(config.swarm_values),
        "kafka": _settings(config.kafka),
        "kafka_defaults": [
            {"name": name, "value": masked(name, value), "origin": "default"}
            for name, value, default in _core.config_entries(config.kafka_pairs(), "consumer")
            if default
        ],
        "routes": _routes(app, config) if app is not None else [],
    }


def shown(description: Description, all_: bool) -> Iterator[str]:
    """For people; `all_`: with Kafka's settings that nobody has set."""
    machine, versions = description["machine"], dict(description["versions"])
    grete, python = versions.pop("grete"), versions.pop("python")
    yield f"Grete {grete}, {versions.pop('implementation')} {python}, {'with' if machine['gil'] else 'without'} the GIL"
    yield f"{machine['platform']}, {machine['usable_cpus']} of {machine['cpus']} CPUs usable"
    yield "pidfd: " + ("yes" if machine["pidfd"] else "no: swarms wait for their nodes by SIGCHLD instead")
    yield "installed: " + (", ".join(f"{name} {version}" for name, version in versions.items() if version) or "nothing")
    if description["app"] is not None:
        yield ""
        yield f'App "{description["app"]}"'
        yield from table(
            ("TOPICS", "HANDLER", "DECLARED AT", "GROUP", "CONCURRENCY", "NODES"),
            [
                (
                    route["topics"],
                    route["handler"],
                    route["location"] or None,
                    route["group"],
                    route["concurrency"],
                    _where(route),
                )
                for route in description["routes"]
            ],
        ).splitlines()
    kafka = description["kafka"] + (description["kafka_defaults"] if all_ else [])
    for heading, settings in (
        ("SETTING", description["settings"]),
        ("[swarm]", description["swarm"]),
        ("[kafka]", kafka),
    ):
        yield ""
        rows = [(setting["name"], _text(setting["name"], setting["value"]), setting["origin"]) for setting in settings]
        yield from table((heading, "VALUE", "FROM"), rows).splitlines()


def _settings(values: Mapping[str, Value]) -> list[Setting]:
    return [
        {"name": name, "value": _plain(masked(name, value.value)), "origin": value.origin}
        for name, value in values.items()
    ]


def _plain(value: object) -> Any:
    """As JSON can say it."""
    if isinstance(value, float) and math.isinf(value):
        return "none"
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _text(name: str, value: Any) -> str:
    """With its unit: a float is seconds, and bytes are where the name says so."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}s"
    if isinstance(value, int) and name.endswith(_SIZES):
        return next((f"{value // per}{unit}" for unit, per in _UNITS if value and value % per == 0), str(value))
    if isinstance(value, list):
        # As they are written.
        between = {"restart_backoff": "..", "probes": ":"}.get(name, ",")
        return between.join(_text("", one) for one in value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text('', one)}" for key, one in value.items())
    return str(value)


def _routes(app: App, config: Config) -> list[RouteDescription]:
    return [
        {
            "topics": list(route.topics),
            "handler": route.name,
            "location": route.location,
            "group": group,
            "concurrency": route.concurrency,
            "nodes": _nodes(route, config),
            "partitions": _plain(route.partitions),
        }
        for group, routes in app.groups(config).items()
        for route in routes
    ]


def _nodes(route: Route, config: Config) -> list[int] | None:
    """Where it is pinned, by itself or by the App; None: nowhere."""
    pinned = config["nodes"] or {}
    if route.nodes is None and not any(topic in topics for topics in pinned.values() for topic in route.topics):
        return None
    return sorted({node for topic in route.topics for node in pins.nodes_of(route, topic, config)})


def _where(route: RouteDescription) -> str:
    nodes = "all" if route["nodes"] is None else ",".join(map(str, route["nodes"]))
    partitions = route["partitions"]
    if isinstance(partitions, dict):
        return "; ".join(f"{node}: partitions {_text('', numbers)}" for node, numbers in partitions.items())
    return nodes if partitions is None else f"{nodes}, partitions {_text('', partitions)}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _usable() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _pidfd() -> bool:
    from grete.swarm.pidfd import fallback

    return not fallback()


def _gil() -> bool:
    enabled = getattr(sys, "_is_gil_enabled", None)
    return bool(enabled()) if enabled is not None else True
