"""Settings in code, for type checkers: of an App, its swarm and a route."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from grete.retry import Retry
from grete.topic import Topic


class SwarmTable(TypedDict, total=False):
    """Settings of `grete swarm`. Durations and sizes have the formats of `AppSettings`; "none" disables a setting."""

    nodes: int
    max_rss: str | int
    gil_timeout: str | float
    report_timeout: str | float
    not_ready_timeout: str | float
    restart_backoff: str | float | tuple[str | float, str | float]
    ready_after: str | float
    crash_loop_after: int
    control: str
    probes: str | int
    cpus: Literal["auto", "none"] | Sequence[int]
    static_membership: bool


class AppSettings(TypedDict, total=False):
    """Grete's own settings in code. Durations are strings like "30s", or seconds; sizes "64MiB", or bytes."""

    workers: int
    group: str
    max_messages: int
    max_bytes: str | int
    max_wait: str | float
    latency: str | float
    stall_after: str | float
    handler_timeout: str | float
    shutdown_timeout: str | float
    queued_bytes: str | int
    statistics_interval: str | float
    log_level: str
    leak_report: bool
    dead_letter_create: bool
    loop: Literal["auto", "own", "host", "asyncio", "uvloop"]
    probes: str | int
    web_reports: str | float
    web_commands: bool
    web_commands_secret: str
    on_failed_partition: Literal["wait", "stop"]
    failed_partition_probes: Literal["readyz", "livez", "none"]
    exactly_once: bool
    transaction_interval: str | float
    swarm: SwarmTable
    nodes: Mapping[int, Sequence[str]]


class RouteSettings(TypedDict, total=False):
    """Settings of a single route. Durations and sizes have the formats of `AppSettings`."""

    group: str
    max_messages: int
    max_bytes: str | int
    max_wait: str | float
    latency: str | float
    stall_after: str | float
    handler_timeout: str | float
    concurrency: Literal["partition", "key", "unordered"]
    exactly_once: bool
    max_in_flight: int
    max_concurrency: int
    priority: int
    payload: object
    publish: str | Topic[Any, Any]
    retry: Retry
    dead_letter: str | Topic[Any, Any]
    queue: bool
    offsets: Literal["auto", "manual", "at_most_once"]
    max_unmarked: int
    offset_map: bool
    rate_limit: str | int
    delay: str | float
    max_age: str | float
    dedup: str
    dedup_window: str | float
    dedup_memory: str | int
    tick: str | float
    nodes: Sequence[int]
    partitions: Sequence[int] | Mapping[int, Sequence[int]]
