"""What the swarm does just now, as one dict: the source of `grete ps`, of `grete info --swarm` and of the probes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, TypedDict, cast

from grete import _core
from grete.swarm import memory as memories
from grete.swarm.memory import Memory
from grete.swarm.report import Report

VERSION = 1


class JobStatus(TypedDict):
    """A job that runs; `seconds` so far."""

    handler: str
    topic: str
    partition: int
    seconds: float


class OverdueStatus(JobStatus):
    """A job that has run longer than its route's `handler_timeout`, which is `limit` seconds."""

    limit: float


class GroupStatus(TypedDict):
    """A node's membership in a consumer group; `since` is seconds in this state."""

    group: str
    state: str
    since: float
    steady: bool
    generation: int | None
    partitions: int
    instance: str | None


class NodeStatus(TypedDict):
    """One node. Times are seconds, memory is bytes, counts run since the node's last start.

    What comes from the node's own report is None (or empty) until the first one of its process is there.
    """

    id: int
    pid: int | None
    """None: there is no process just now."""
    state: str
    """The manager's phase: "starting", "steady", "stopping", "backoff", and so on."""
    seconds: float
    """In this state."""
    reason: str | None
    """While it is being stopped: why."""
    restart_in: float | None
    """While it waits for its restart: how long still."""
    kill_in: float | None
    """While it is being stopped: seconds to SIGKILL. Negative: it was due that long ago, and the process is there."""
    looping: bool
    """Whether it died so often in a row soon after its start that this is a crash loop."""
    uptime: float | None
    """Of the process."""
    restarts: int
    deaths: int
    deaths_by_reason: dict[str, int]
    """Why it was stopped, or "exit", or the signal's name: "memory", "SIGSEGV"."""
    last_death: str | None
    """How the process before ended: "killed by SIGSEGV", "exit 1"."""
    report_age: float | None
    """Since the last report came."""
    steady: bool
    quiet: bool
    gil_wait: float | None
    rss: int | None
    pss: int | None
    lag: int | None
    lanes: dict[str, int]
    oldest: JobStatus | None
    overdue: list[OverdueStatus]
    stalled: list[str]
    groups: list[GroupStatus]
    workers: int | None
    jobs: int | None
    records: int | None
    failures: int | None
    dead_letters: int | None
    memory: Memory | None
    """Measured for this answer, if it was asked for and there is a process."""


class Status(TypedDict):
    """The whole swarm. A JSON object as it is."""

    v: int
    """`VERSION`. It grows when a field changes its meaning or goes; new fields may come with the same number."""
    app: str
    version: str
    """Grete's."""
    pid: int
    """Of the supervisor."""
    uptime: float
    stopping: bool
    quiet: bool
    rolling: bool
    """A rolling restart is under way."""
    exit_status: int | None
    control: str | None
    """The control socket's path."""
    probes: list[str]
    """Where the probes listen: "127.0.0.1:8080", "[::1]:8080"; empty: nowhere."""
    nodes: list[NodeStatus]
    memory: Memory | None
    """The supervisor's own, if it was asked for."""


@dataclass(slots=True)
class About:
    """What does not come from the manager."""

    app: str
    started: float
    """When the supervisor started, on the monotonic clock."""
    control: str | None = None
    probes: tuple[str, ...] = ()


class Facts(Protocol):
    """What is read of the manager's facts about a node. Times are points on the monotonic clock."""

    @property
    def id(self) -> int: ...
    @property
    def phase(self) -> str: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def since(self) -> float: ...
    @property
    def forked_at(self) -> float | None: ...
    @property
    def restarts(self) -> int: ...
    @property
    def deaths(self) -> int: ...
    @property
    def deaths_by_reason(self) -> Mapping[str, int]: ...
    @property
    def last_death(self) -> str | None: ...
    @property
    def why_stopping(self) -> str | None: ...
    @property
    def next_at(self) -> float | None: ...
    @property
    def kill_at(self) -> float | None: ...
    @property
    def looping(self) -> bool: ...
    @property
    def last_report(self) -> Report | None: ...
    @property
    def last_report_at(self) -> float | None: ...


class Managed(Protocol):
    """What is read of the manager."""

    @property
    def nodes(self) -> Sequence[Facts]: ...
    @property
    def stopping(self) -> bool: ...
    @property
    def quieted(self) -> bool: ...
    @property
    def rolling(self) -> bool: ...
    @property
    def exit_status(self) -> int | None: ...


def snapshot(about: About, manager: Managed, now: float, *, memory: bool = False) -> Status:
    """The swarm at `now`, a point on the monotonic clock.

    `memory` measures each process, too. That walks page tables, milliseconds for each GB in use: not for each second.
    """
    return {
        "v": VERSION,
        "app": about.app,
        "version": _core.__version__,
        "pid": os.getpid(),
        "uptime": _seconds(now - about.started),
        "stopping": manager.stopping,
        "quiet": manager.quieted,
        "rolling": manager.rolling,
        "exit_status": manager.exit_status,
        "control": about.control,
        "probes": list(about.probes),
        "nodes": [_node(facts, now, memory) for facts in manager.nodes],
        "memory": memories.of(os.getpid()) if memory else None,
    }


def _node(facts: Facts, now: float, memory: bool) -> NodeStatus:
    pid = facts.pid
    # The report of a process that is gone says nothing of the one that comes.
    report = facts.last_report if pid is not None else None
    return {
        "id": facts.id,
        "pid": pid,
        "state": str(facts.phase),
        "seconds": _seconds(now - facts.since),
        "reason": facts.why_stopping,
        "restart_in": None if facts.next_at is None else _seconds(facts.next_at - now),
        "kill_in": None if facts.kill_at is None else round(facts.kill_at - now, 3),
        "looping": facts.looping,
        "uptime": None if pid is None or facts.forked_at is None else _seconds(now - facts.forked_at),
        "restarts": facts.restarts,
        "deaths": facts.deaths,
        "deaths_by_reason": dict(facts.deaths_by_reason),
        "last_death": facts.last_death,
        "report_age": None if report is None or facts.last_report_at is None else _seconds(now - facts.last_report_at),
        "steady": report is not None and report.steady,
        "quiet": report is not None and report.quiet,
        "gil_wait": report.gil_wait if report else None,
        "rss": report.rss if report else None,
        "pss": report.pss if report else None,
        "lag": report.lag if report else None,
        "lanes": asdict(report.lanes) if report else {},
        "oldest": _oldest(report),
        "overdue": [cast(OverdueStatus, asdict(job)) for job in report.overdue] if report else [],
        "stalled": list(report.stalled) if report else [],
        "groups": [cast(GroupStatus, asdict(group)) for group in report.groups] if report else [],
        "workers": report.workers if report else None,
        "jobs": report.jobs if report else None,
        "records": report.records if report else None,
        "failures": report.failures if report else None,
        "dead_letters": report.dead_letters if report else None,
        "memory": memories.of(pid) if memory and pid is not None else None,
    }


def _oldest(report: Report | None) -> JobStatus | None:
    job = report.oldest if report else None
    if job is None:
        return None
    return {"handler": job.handler, "topic": job.topic, "partition": job.partition, "seconds": _seconds(job.seconds)}


def _seconds(value: float) -> float:
    """Never negative, in milliseconds: nobody reads more digits."""
    return round(max(0.0, value), 3)
