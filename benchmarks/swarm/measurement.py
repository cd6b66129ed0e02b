"""Everything that one call of the benchmark found out. Seconds, bytes, per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.common.broker import Broker
from benchmarks.common.progress import Failures


@dataclass(frozen=True)
class Cpu:
    """A handler that computes, in one way of running it: one window of each round."""

    name: str
    title: str
    per_second: tuple[float, ...]

    @property
    def typical(self) -> float:
        """Records per second."""
        return median(self.per_second)

    @property
    def rounds(self) -> int:
        """How many windows there were."""
        return len(self.per_second)


@dataclass(frozen=True)
class Memory:
    """A fleet under load: the sums of all its processes."""

    name: str
    title: str
    processes: int
    seconds: float
    records: int
    # The largest of the load's last third, and those of all looks: (seconds, bytes).
    pss: int
    course: tuple[tuple[float, int], ...]
    rss: int
    private: int
    # Of the process that has most: private bytes by what they are for.
    largest: int
    kinds: Mapping[str, int]
    # Seconds that reading the PSS of one process takes.
    reading: float


@dataclass(frozen=True)
class Delays:
    """How long something took, each time."""

    name: str
    title: str
    seconds: tuple[float, ...]

    def share(self, part: float) -> float:
        """The time within which so large a part of them was."""
        ordered = sorted(self.seconds)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


@dataclass(frozen=True)
class Idle:
    """One process that waits, over one window."""

    name: str
    title: str
    wakeups_per_second: float
    cpu_ms_per_second: float
    threads: int
    # Wake-ups per second and microseconds of CPU per second of each thread, by name.
    by_thread: Mapping[str, tuple[float, float]]


@dataclass
class Measurement(Failures):
    """By part."""

    cpu: list[Cpu] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    delays: list[Delays] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)

    def delay(self, name: str) -> Delays | None:
        """If it was measured."""
        return next((row for row in self.delays if row.name == name and row.seconds), None)


@dataclass(frozen=True)
class Bench:
    """Broker and settings of all parts."""

    broker: Broker
    # Fewer rounds, shorter windows: for a look.
    quick: bool

    def pick(self, whole: float, quick: float) -> float:
        """The one that applies."""
        return quick if self.quick else whole


def rows_of(rows: Sequence[Memory], name: str) -> Memory | None:
    """If it was measured."""
    return next((row for row in rows if row.name == name), None)
