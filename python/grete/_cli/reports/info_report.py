"""Report of `grete info`: versions and machine, settings and routes of an App."""

import importlib.metadata
import math
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from grete import _native
from grete._cli.terminal.table import Table
from grete._config.layers import Config, SettingValue, mask
from grete._config.static_membership import SETTING as INSTANCE
from grete._routing import pinning
from grete._routing.routes import Route
from grete._swarm import instance_ids
from grete.app import App

# Optional packages that Grete supports.
_OPTIONAL = (
    "msgspec",
    "pydantic",
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
    """Effective value of a setting. Durations are seconds, sizes bytes, secrets masked."""

    name: str
    value: Any
    origin: str


class RouteDescription(TypedDict):
    """Declaration of a route."""

    topics: list[str]
    handler: str
    location: str
    group: str
    concurrency: str
    nodes: list[int] | None
    partitions: Any


class InfoReport(TypedDict):
    """Complete report."""

    versions: dict[str, str | None]
    """Version by package; None: not installed."""
    machine: dict[str, Any]
    app: str | None
    settings: list[Setting]
    swarm: list[Setting]
    kafka: list[Setting]
    """Kafka settings that were given."""
    kafka_defaults: list[Setting]
    """All other Kafka settings, with a consumer's defaults."""
    routes: list[RouteDescription]


def build_report(app: App | None, config: Config) -> InfoReport:
    """Builds the report of an App, or of grete.toml and the environment. Opens no socket. Raises ConfigError."""
    instance = _static_instance(app, config)
    return {
        "versions": {
            "grete": _native.__version__,
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            **{name: _version(name) for name in _OPTIONAL},
        },
        "machine": {
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "usable_cpus": _usable_cpus(),
            "pidfd": _has_pidfd(),
            "gil": _has_gil(),
        },
        "app": app.name if app is not None else None,
        "settings": _settings(config.settings),
        "swarm": _settings(config.swarm_values),
        "kafka": _settings(config.kafka) + instance,
        "kafka_defaults": [
            {"name": name, "value": mask(name, value), "origin": "default"}
            for name, value, default in _native.config_entries(config.kafka_pairs(), "consumer")
            if default and not (instance and name == INSTANCE)
        ],
        "routes": _routes(app, config) if app is not None else [],
    }


def _static_instance(app: App | None, config: Config) -> list[Setting]:
    """Returns the id that a swarm makes for its nodes; empty if a setting has one, or disables static membership."""
    if app is None or not config.swarm.static_membership or config.instance_id() is not None:
        return []
    value = f"{instance_ids.id_prefix(app.name)}-NODE"
    return [{"name": INSTANCE, "value": value, "origin": "swarm.static_membership; grete swarm only"}]


def render(description: InfoReport, show_defaults: bool) -> Iterator[str | Table]:
    """Renders the report for people. `show_defaults`: with Kafka's settings that have their default."""
    machine, versions = description["machine"], dict(description["versions"])
    grete, python = versions.pop("grete"), versions.pop("python")
    yield f"Grete {grete}, {versions.pop('implementation')} {python}, {'with' if machine['gil'] else 'without'} the GIL"
    yield f"{machine['platform']}, {machine['usable_cpus']} of {machine['cpus']} CPUs usable"
    yield "pidfd: " + ("yes" if machine["pidfd"] else "no: swarms wait for their nodes by SIGCHLD instead")
    yield "installed: " + (", ".join(f"{name} {version}" for name, version in versions.items() if version) or "nothing")
    if description["app"] is not None:
        yield ""
        yield f'App "{description["app"]}"'
        yield Table(
            ("TOPICS", "HANDLER", "DECLARED AT", "GROUP", "CONCURRENCY", "NODES"),
            [
                (
                    route["topics"],
                    route["handler"],
                    route["location"] or None,
                    route["group"],
                    route["concurrency"],
                    _format_nodes(route),
                )
                for route in description["routes"]
            ],
        )
    kafka = description["kafka"] + (description["kafka_defaults"] if show_defaults else [])
    for heading, settings in (
        ("SETTING", description["settings"]),
        ("[swarm]", description["swarm"]),
        ("[kafka]", kafka),
    ):
        yield ""
        rows = [
            (setting["name"], _format_value(setting["name"], setting["value"]), setting["origin"])
            for setting in settings
        ]
        yield Table((heading, "VALUE", "FROM"), rows)


def _settings(values: Mapping[str, SettingValue]) -> list[Setting]:
    return [
        {"name": name, "value": _to_json(mask(name, value.value)), "origin": value.origin}
        for name, value in values.items()
    ]


def _to_json(value: object) -> Any:
    """Converts a value for JSON."""
    if isinstance(value, float) and math.isinf(value):
        return "none"
    if isinstance(value, Mapping):
        return {str(name): _to_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_to_json(one) for one in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _format_value(name: str, value: Any) -> str:
    """Formats a value with its unit: a float is seconds, and the name of a setting in bytes says so."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}s"
    if isinstance(value, int) and name.endswith(_SIZES):
        return next((f"{value // per}{unit}" for unit, per in _UNITS if value and value % per == 0), str(value))
    if isinstance(value, list):
        # In the notation of the settings.
        between = {"restart_backoff": "..", "probes": ":"}.get(name, ",")
        return between.join(_format_value("", one) for one in value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_format_value('', one)}" for key, one in value.items())
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
            "partitions": _to_json(route.partitions),
        }
        for group, routes in app.groups(config).items()
        for route in routes
    ]


def _nodes(route: Route, config: Config) -> list[int] | None:
    """Returns the nodes that the route is pinned to, by itself or by the App; None: not pinned."""
    pinned = config["nodes"] or {}
    if route.nodes is None and not any(topic in topics for topics in pinned.values() for topic in route.topics):
        return None
    return sorted({node for topic in route.topics for node in pinning.nodes_of(route, topic, config)})


def _format_nodes(route: RouteDescription) -> str:
    nodes = "all" if route["nodes"] is None else ",".join(map(str, route["nodes"]))
    partitions = route["partitions"]
    if isinstance(partitions, dict):
        return "; ".join(f"{node}: partitions {_format_value('', numbers)}" for node, numbers in partitions.items())
    return nodes if partitions is None else f"{nodes}, partitions {_format_value('', partitions)}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _usable_cpus() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _has_pidfd() -> bool:
    from grete._swarm.node.pidfd import pidfd_unavailable

    return not pidfd_unavailable()


def _has_gil() -> bool:
    enabled = getattr(sys, "_is_gil_enabled", None)
    return bool(enabled()) if enabled is not None else True
