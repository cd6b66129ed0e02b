"""Everything that one call of the benchmark found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.common.broker import Broker
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import Failures
from benchmarks.consume.rows import Run


@dataclass(frozen=True)
class Waiting:
    """A handler that waits for I/O: medians over the windows."""

    name: str
    title: str
    partitions: int
    per_second: float
    slowest: float
    fastest: float
    cpu_per_million: float


@dataclass(frozen=True)
class Wakeups:
    """Jobs of one record: voluntary context switches per job, medians over the windows."""

    name: str
    title: str
    jobs_per_second: float
    # Of the handler itself, of its worker beyond that, of the whole process beyond the handlers.
    handler: float
    worker: float
    process: float


@dataclass(frozen=True)
class Idle:
    """A process that waits: medians over the windows."""

    name: str
    title: str
    wakeups_per_second: float
    cpu_ms_per_second: float
    threads: int


@dataclass(frozen=True)
class Crowd:
    """Jobs per CPU second beside blocked background threads: medians over the phases of one process."""

    threads: int
    phases: int
    jobs_per_cpu_second: float
    jobs_per_second: float


@dataclass(frozen=True)
class Stuck:
    """One partition of several that does not come back."""

    seconds: float
    # Records per second of all other partitions together.
    before: float
    during: float
    # The worst of the others: its rate while one was stuck over its rate before.
    worst: float
    rebalances: int
    # What named the one that is stuck: a log record, and a line of App.statistics().
    logged: str
    shown: str


@dataclass(frozen=True)
class Transform:
    """One run of a loop that reads, transforms and produces, all of it delivered and committed at the end."""

    name: str
    title: str
    partitions: int
    per_second: float
    cpu_us: float  # per record
    # Records that were written and not committed, at the median and at the worst of the looks; below zero: committed
    # before they were written.
    lag: float
    lag_ms: float
    worst_lag: int
    # The most that were certainly committed before they were written.
    ahead: int
    version: str


@dataclass
class Measurement(Failures):
    """By part."""

    runs: list[Run] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    wakeups: list[Wakeups] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    crowds: list[Crowd] = field(default_factory=list)
    stuck: list[Stuck] = field(default_factory=list)
    transforms: list[Transform] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """Broker and cores of all parts."""

    broker: Broker
    cores: Cores
    timeout: float
    # Fewer rounds, shorter windows: for a look.
    quick: bool

    @property
    def windows(self) -> dict[str, str]:
        """The words that `clients.windows.Plan` reads."""
        warm_up, windows, seconds = (0.5, 3, 0.5) if self.quick else (1.0, 3, 1.2)
        return {"warm_up": str(warm_up), "windows": str(windows), "seconds": str(seconds)}


def over_windows(samples: Sequence[dict[str, Any]], above: str, below: str) -> list[float]:
    """The growth of one figure over the growth of another, window by window."""
    return [
        (after[above] - before[above]) / max(after[below] - before[below], 1e-9) for before, after in pairwise(samples)
    ]


def typical(samples: Sequence[dict[str, Any]], above: str, below: str) -> float:
    """The median of these."""
    return median(over_windows(samples, above, below))
