"""State of the swarm as one dict: the source of `grete ps`, `grete info --swarm` and the probes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, TypedDict, cast

from grete import _native
from grete._swarm.node.report import Report
from grete._swarm.status import memory as memories
from grete._swarm.status.memory import Memory

VERSION = 1


class JobStatus(TypedDict):
    """Running job; `seconds` is its duration so far."""

    handler: str
    topic: str
    partition: int
    seconds: float


class OverdueJobStatus(JobStatus):
    """A job that has run longer than its route's `handler_timeout`, which is `limit` seconds."""

    limit: float


class FailedPartitionStatus(TypedDict):
    """A partition that cannot be read: `failure` is the cause in one word, `seconds` the duration."""

    handler: str
    topic: str
    partition: int
    failure: str
    error: str
    seconds: float


class GroupStatus(TypedDict):
    """A node's membership in a consumer group; `since` is seconds in this state."""

    group: str
    state: str
    since: float
    ready: bool
    generation: int | None
    partitions: int
    instance: str | None
    connections: int | None
    login_failure: str | None
    authorization_failure: str | None


class MissingTopicStatus(TypedDict):
    """A topic that a node needs and that does not exist."""

    topic: str
    text: str


class UnmovedLaneStatus(TypedDict):
    """Partition that has not moved for `seconds`. `waits_for`: cause in one word; `wait`: as a sentence."""

    handler: str
    topic: str
    partition: int
    waits_for: str
    wait: str
    seconds: float
    lag: int | None


class NodeStatus(TypedDict):
    """One node. Times are seconds, memory is bytes, counters start with the node's process.

    Fields from the node's own report are None (or empty) until the first report of its process.
    """

    id: int
    pid: int | None
    """None: no process."""
    state: str
    """The manager's phase: "starting", "ready", "stopping", "backoff", and so on."""
    seconds: float
    """Time in this state."""
    reason: str | None
    """Reason of the stop that is under way; None: no stop."""
    restart_in: float | None
    """Time until the next fork; None: no fork is scheduled."""
    kill_in: float | None
    """Time until SIGKILL during a stop. Negative: SIGKILL was due that long ago, and the process still exists."""
    looping: bool
    """Whether the node is in a crash loop: several short lives in a row."""
    uptime: float | None
    """Uptime of the process; None: no process."""
    restarts: int
    deaths: int
    deaths_by_reason: dict[str, int]
    """Deaths by reason: that of a stop, "exit", or the signal's name: "memory", "SIGSEGV"."""
    last_death: str | None
    """End of the previous process: "killed by SIGSEGV", "exit 1"."""
    report_age: float | None
    """Time since the last report."""
    ready: bool
    quiet: bool
    gil_wait: float | None
    loop_wait: float | None
    rss: int | None
    pss: int | None
    lag: int | None
    lanes: dict[str, int]
    oldest: JobStatus | None
    overdue: list[OverdueJobStatus]
    stalled: list[str]
    failed: list[FailedPartitionStatus]
    unmoved: list[UnmovedLaneStatus]
    groups: list[GroupStatus]
    missing: list[MissingTopicStatus]
    waiting: str | None
    """Cause and latest end of the wait of a node that is not ready, as far as known; None: it is ready."""
    workers: int | None
    jobs: int | None
    records: int | None
    failures: int | None
    dead_letters: int | None
    memory: Memory | None
    """Measured for this response; None: not requested, or no process."""


class Status(TypedDict):
    """State of the whole swarm, serializable as a JSON object."""

    v: int
    """`VERSION`. Incremented when a field changes its meaning or is removed; new fields keep the number."""
    app: str
    version: str
    """Version of Grete."""
    pid: int
    """Process of the supervisor."""
    uptime: float
    stopping: bool
    quiet: bool
    rolling: bool
    """Whether a rolling restart is under way."""
    exit_status: int | None
    control: str | None
    """Path of the control socket; None: no socket."""
    failed_partition_probes: str
    """Probes that fail while a partition cannot be read: "readyz", "livez" (both) or "none"."""
    probes: list[str]
    """Addresses of the probes: "127.0.0.1:8080", "[::1]:8080"; empty: no probes."""
    nodes: list[NodeStatus]
    memory: Memory | None
    """Memory of the supervisor; None: not requested."""


@dataclass(slots=True)
class SupervisorInfo:
    """State of the supervisor that the manager does not know."""

    app: str
    started: float
    """When the supervisor started, on the monotonic clock."""
    control: str | None = None
    probes: tuple[str, ...] = ()
    failed_partition_probes: str = "readyz"


class NodeView(Protocol):
    """Fields of the manager's `NodeState` that are read here. Times are on the monotonic clock."""

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
    def stop_reason(self) -> str | None: ...
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


class ManagerView(Protocol):
    """Attributes of the `Manager` that are read here."""

    @property
    def nodes(self) -> Sequence[NodeView]: ...
    @property
    def stopping(self) -> bool: ...
    @property
    def quieted(self) -> bool: ...
    @property
    def rolling(self) -> bool: ...
    @property
    def exit_status(self) -> int | None: ...
    def wait_causes(self, now: float) -> Mapping[int, str]: ...


def snapshot(info: SupervisorInfo, manager: ManagerView, now: float, *, memory: bool = False) -> Status:
    """Returns the state of the swarm at `now`, on the monotonic clock.

    `memory`: measures each process, too. That walks page tables, milliseconds per GB in use: too slow for each second.
    """
    waits = manager.wait_causes(now)
    return {
        "v": VERSION,
        "app": info.app,
        "version": _native.__version__,
        "pid": os.getpid(),
        "uptime": _seconds(now - info.started),
        "stopping": manager.stopping,
        "quiet": manager.quieted,
        "rolling": manager.rolling,
        "exit_status": manager.exit_status,
        "control": info.control,
        "failed_partition_probes": info.failed_partition_probes,
        "probes": list(info.probes),
        "nodes": [_node_status(facts, now, memory, waits) for facts in manager.nodes],
        "memory": memories.read_memory(os.getpid()) if memory else None,
    }


def _node_status(node: NodeView, now: float, memory: bool, waits: Mapping[int, str]) -> NodeStatus:
    pid = node.pid
    # The report of a dead process says nothing about its successor.
    report = node.last_report if pid is not None else None
    return {
        "id": node.id,
        "pid": pid,
        "state": str(node.phase),
        "seconds": _seconds(now - node.since),
        "reason": node.stop_reason,
        "restart_in": None if node.next_at is None else _seconds(node.next_at - now),
        "kill_in": None if node.kill_at is None else round(node.kill_at - now, 3),
        "looping": node.looping,
        "uptime": None if pid is None or node.forked_at is None else _seconds(now - node.forked_at),
        "restarts": node.restarts,
        "deaths": node.deaths,
        "deaths_by_reason": dict(node.deaths_by_reason),
        "last_death": node.last_death,
        "report_age": None if report is None or node.last_report_at is None else _seconds(now - node.last_report_at),
        "ready": report is not None and report.ready,
        "quiet": report is not None and report.quiet,
        "gil_wait": report.gil_wait if report else None,
        "loop_wait": report.loop_wait if report else None,
        "rss": report.rss if report else None,
        "pss": report.pss if report else None,
        "lag": report.lag if report else None,
        "lanes": asdict(report.lanes) if report else {},
        "oldest": _oldest_job(report),
        "overdue": [cast(OverdueJobStatus, asdict(job)) for job in report.overdue] if report else [],
        "stalled": list(report.stalled) if report else [],
        "unmoved": [cast(UnmovedLaneStatus, asdict(lane)) for lane in report.unmoved] if report else [],
        "failed": [cast(FailedPartitionStatus, asdict(partition)) for partition in report.failed] if report else [],
        "groups": [cast(GroupStatus, asdict(group)) for group in report.groups] if report else [],
        "missing": [cast(MissingTopicStatus, asdict(topic)) for topic in report.missing] if report else [],
        "waiting": waits.get(node.id),
        "workers": report.workers if report else None,
        "jobs": report.jobs if report else None,
        "records": report.records if report else None,
        "failures": report.failures if report else None,
        "dead_letters": report.dead_letters if report else None,
        "memory": memories.read_memory(pid) if memory and pid is not None else None,
    }


def _oldest_job(report: Report | None) -> JobStatus | None:
    job = report.oldest if report else None
    if job is None:
        return None
    return {"handler": job.handler, "topic": job.topic, "partition": job.partition, "seconds": _seconds(job.seconds)}


def _seconds(value: float) -> float:
    """Rounds to milliseconds, and clips at 0."""
    return round(max(0.0, value), 3)
