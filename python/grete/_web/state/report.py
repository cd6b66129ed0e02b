"""Parser of the records of `grete.reports`. A record is not trusted: any client may write to the topic."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

VERSION = 1
T = TypeVar("T")
_MAX_TEXT = 4096
_MAX_ITEMS = 2000
_STATES = frozenset({"starting", "running", "quiet", "stopping", "stopped"})


class InvalidReportError(ValueError):
    """The record is no report of a version that this program knows."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that do not change while a process runs."""

    id: str
    app: str
    node: int | None
    host: str
    pid: int
    started: int
    """Milliseconds since 1970."""
    grete: str
    python: str


@dataclass(frozen=True, slots=True)
class Group:
    """Membership in a group. `state` is "stable", "joining", ... for `since` seconds."""

    group: str
    state: str
    since: float
    ready: bool
    generation: int | None
    partitions: int
    connections: int | None
    problem: str
    """Refused login or missing ACL, with the cure; "": none."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Counts since the start of the process; times in milliseconds. `p99`: None: unknown, or above all buckets."""

    name: str
    jobs: int
    records: int
    failures: int
    retries: int
    dead_letters: int
    expired: int
    skipped: int
    stalls: int
    timeouts: int
    running: int
    oldest: int
    duration: int
    p99: int | None


@dataclass(frozen=True, slots=True)
class Job:
    """Job that runs. Times are milliseconds; `limit` None: no `handler_timeout`."""

    handler: str
    topic: str
    partition: int
    age: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Stack:
    """Stack of a job, taken `at` milliseconds since 1970."""

    text: str
    stack: str
    at: int


@dataclass(frozen=True, slots=True)
class Lane:
    """Assigned partition. Times are milliseconds; None: unknown, or not applicable."""

    group: str
    topic: str
    handler: str
    partition: int
    state: str
    position: int | None
    committable: int | None
    end: int | None
    lag: int | None
    oldest: int | None
    in_flight: int
    queued_bytes: int
    attempt: int
    running_for: int | None
    paused_for: int | None
    last_progress: int | None
    stalled: bool
    failure: str
    """Why the partition cannot be read, in one word; "": it can."""
    waits_for: str = ""
    """Reason why the partition waits, in one word; "": all its records are processed, or its Grete is older."""
    unmoved_for: int = 0
    """Time for which no record was handed out or processed, although records wait."""
    stall: str = ""
    """Reason as a sentence, for a partition that has not moved for `stall_after`; "": the partition moves."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over all handlers since the start of the process. `duration`: milliseconds of all jobs."""

    jobs: int = 0
    records: int = 0
    failures: int = 0
    retries: int = 0
    dead_letters: int = 0
    expired: int = 0
    skipped: int = 0
    stalls: int = 0
    timeouts: int = 0
    duration: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """One report. Times are milliseconds, sizes bytes."""

    facts: Facts
    seq: int
    at: int
    every: int
    state: str
    ready: bool
    live: bool | None
    uptime: int
    dropped: int
    rss: int | None
    cpu: int | None
    fds: int | None
    workers: int | None
    busy: int | None
    gil_wait: int | None
    loop_wait: int | None
    lag: int | None
    traffic: dict[str, int]
    totals: Totals
    groups: tuple[Group, ...] = ()
    handlers: tuple[Handler, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    """(kind, text)."""
    jobs: tuple[Job, ...] = ()
    stacks: tuple[Stack, ...] = ()
    lanes: tuple[Lane, ...] = ()
    lanes_left_out: int = 0


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """Route of an App."""

    handler: str
    topics: tuple[str, ...]
    group: str
    location: str
    concurrency: str
    attempts: int | None
    dead_letter: str
    publish: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a process: (name, value, origin), and its routes."""

    facts: Facts
    settings: tuple[tuple[str, str, str], ...] = ()
    kafka: tuple[tuple[str, str, str], ...] = ()
    routes: tuple[RouteFacts, ...] = field(default=())


def parse_report(value: bytes) -> Report:
    """Parses a report. Raises InvalidReportError, and nothing else."""
    return _guarded(_report, value)


def parse_settings(value: bytes) -> Settings:
    """Parses the settings of a process. Raises InvalidReportError, and nothing else."""
    return _guarded(_settings, value)


def load_object(value: bytes) -> dict[str, Any]:
    """Parses a record of this version. Raises InvalidReportError."""
    try:
        content = json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidReportError("the record is no JSON") from error
    if not isinstance(content, dict) or content.get("v") != VERSION:
        raise InvalidReportError(f"the record is no report of version {VERSION}")
    return content


def text(value: object, most: int = _MAX_TEXT) -> str:
    """Returns a text of bounded length; "" for anything else. JSON may hold halves of characters, which no page can."""
    return value[:most].encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """Returns a whole number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # An integer of many digits has no float.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return min(int(value), 2**63 - 1) if value >= 0 else None


def _guarded(parse: Callable[[dict[str, Any]], T], value: bytes) -> T:
    try:
        return parse(load_object(value))
    except InvalidReportError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise InvalidReportError(f"the record is no report: {type(error).__name__}") from error


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _n(value: object) -> int:
    return count(value) or 0


def _items(content: dict[str, Any], name: str) -> Sequence[Any]:
    found = content.get(name, [])
    return found[:_MAX_ITEMS] if isinstance(found, list) else []


def _facts(content: Any) -> Facts:
    if not isinstance(content, dict) or not text(content.get("id")):
        raise InvalidReportError("the report names no process")
    return Facts(
        id=text(content["id"])[:512],
        app=text(content.get("app")),
        node=count(content.get("node")),
        host=text(content.get("host")),
        pid=_n(content.get("pid")),
        started=_n(content.get("started")),
        grete=text(content.get("grete")),
        python=text(content.get("python")),
    )


def _report(content: dict[str, Any]) -> Report:
    names = [text(name) for name in _items(content, "names")]
    state = text(content.get("state"))
    totals = [_n(one) for one in _items(content, "totals")][:10]
    traffic = (
        "fetched_bytes",
        "fetched_records",
        "reconnects",
        "produced_records",
        "produced_bytes",
        "produce_failures",
    )
    return Report(
        facts=_facts(content.get("process")),
        seq=_n(content.get("seq")),
        at=_n(content.get("at")),
        every=min(max(_n(content.get("every")), 100), 3_600_000),
        state=state if state in _STATES else "starting",
        ready=content.get("ready") is True,
        live=content["live"] if isinstance(content.get("live"), bool) else None,
        uptime=_n(content.get("uptime")),
        dropped=_n(content.get("dropped")),
        rss=count(content.get("rss")),
        cpu=count(content.get("cpu")),
        fds=count(content.get("fds")),
        workers=count(content.get("workers")),
        busy=count(content.get("busy")),
        gil_wait=count(content.get("gil_wait")),
        loop_wait=count(content.get("loop_wait")),
        lag=count(content.get("lag")),
        traffic={name: _n(content.get(name)) for name in traffic},
        totals=Totals(*totals),
        groups=tuple(_group(one) for one in _items(content, "groups")),
        handlers=tuple(_handler(one) for one in _items(content, "handlers")),
        problems=tuple((text(kind), text(what)) for kind, what in _items(content, "problems")),
        jobs=tuple(
            Job(text(h), text(t), _n(p), _n(age), count(limit)) for h, t, p, age, limit in _items(content, "jobs")
        ),
        stacks=tuple(Stack(text(what), text(stack), _n(at)) for what, stack, at in _items(content, "stacks")),
        lanes=tuple(_lane(one, names) for one in _items(content, "lanes")),
        lanes_left_out=_n(content.get("lanes_left_out")),
    )


def _group(one: dict[str, Any]) -> Group:
    since = one.get("since")
    return Group(
        group=text(one.get("group")),
        state=text(one.get("state")),
        since=min(max(since, 0.0), 1e12) if isinstance(since, (int, float)) and since == since else 0.0,
        ready=one.get("ready") is True,
        generation=count(one.get("generation")),
        partitions=_n(one.get("partitions")),
        connections=count(one.get("connections")),
        problem=text(one.get("login_failure")) or text(one.get("authorization_failure")),
    )


def _handler(one: Sequence[Any]) -> Handler:
    name, *counts = one
    *known, p99 = counts[:13]
    return Handler(text(name), *[_n(each) for each in known[:12]], p99=count(p99))  # type: ignore[misc]


def _lane(one: Sequence[Any], names: Sequence[str]) -> Lane:
    group, topic, handler, partition, state, *rest = one
    position, committable, end, lag, oldest, in_flight, queued, attempt, running, paused, progress, stalled, *later = (
        rest
    )
    failure, waits_for, unmoved_for, stall, *_ = (*later, None, None, None)  # an older Grete reports less
    return Lane(
        group=names[_n(group)],
        topic=names[_n(topic)],
        handler=names[_n(handler)],
        partition=_n(partition),
        state=text(state),
        position=count(position),
        committable=count(committable),
        end=count(end),
        lag=count(lag),
        oldest=count(oldest),
        in_flight=_n(in_flight),
        queued_bytes=_n(queued),
        attempt=_n(attempt),
        running_for=count(running),
        paused_for=count(paused),
        last_progress=count(progress),
        stalled=bool(stalled),
        failure=text(failure),
        waits_for=text(waits_for),
        unmoved_for=_n(unmoved_for),
        stall=text(stall),
    )


def _settings(content: dict[str, Any]) -> Settings:
    def rows(name: str) -> tuple[tuple[str, str, str], ...]:
        return tuple((text(a), text(b), text(c)) for a, b, c in _items(content, name))

    routes = tuple(
        RouteFacts(
            handler=text(one.get("handler")),
            topics=tuple(text(topic) for topic in one.get("topics", [])[:_MAX_ITEMS]),
            group=text(one.get("group")),
            location=text(one.get("location")),
            concurrency=text(one.get("concurrency")),
            attempts=count(one.get("attempts")),
            dead_letter=text(one.get("dead_letter")),
            publish=text(one.get("publish")),
        )
        for one in _items(content, "routes")
    )
    return Settings(_facts(content.get("process")), rows("settings"), rows("kafka"), routes)
