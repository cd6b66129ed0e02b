"""Everything that one call of the benchmark found out. Seconds, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from benchmarks.common.progress import Failures


@dataclass(frozen=True)
class Sent:
    """One client that encodes and sends so many spans at once: the median call of each round."""

    name: str
    title: str
    version: str
    spans: int
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    # Of one call, in all threads.
    objects: float | None
    bytes: float | None

    @property
    def typical(self) -> float:
        """Seconds of a call."""
        return median(self.seconds)

    @property
    def per_second(self) -> float:
        """Calls."""
        return 1 / self.typical


@dataclass(frozen=True)
class Written:
    """One client that writes child spans: microseconds of each in each round."""

    name: str
    title: str
    version: str
    # To begin it, to set two tags, to end it.
    microseconds: tuple[float, ...]
    # With all that comes of it, until the agent has it.
    sent_microseconds: tuple[float, ...]

    @property
    def typical(self) -> float:
        """Microseconds until it has ended."""
        return median(self.microseconds)


@dataclass(frozen=True)
class Traced:
    """Jobs whose spans go to an agent of some kind: one process of each round."""

    agent: str
    title: str
    handler: str
    per_second: tuple[float, ...]
    # CPU of all threads for one job.
    microseconds: tuple[float, ...]
    # The highest of all rounds.
    rss: int
    # Of the last round.
    finished: int
    sent: int
    waiting: int
    waiting_bytes: int
    dropped: Mapping[str, int]

    @property
    def typical(self) -> float:
        """Jobs per second."""
        return median(self.per_second)

    @property
    def cpu(self) -> float:
        """Microseconds for one job."""
        return median(self.microseconds)

    @property
    def unaccounted(self) -> int:
        """Number of spans whose fate is unknown."""
        return abs(self.finished - self.sent - self.waiting - sum(self.dropped.values()))


@dataclass
class Measurement(Failures):
    """By part."""

    sent: list[Sent] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    jobs: list[Traced] = field(default_factory=list)

    def of_size(self, spans: int) -> dict[str, Sent]:
        """By name."""
        return {row.name: row for row in self.sent if row.spans == spans}

    def of_handler(self, handler: str) -> dict[str, Traced]:
        """By agent."""
        return {row.agent: row for row in self.jobs if row.handler == handler}


def handlers(rows: Iterable[Traced]) -> list[str]:
    """Each once, in their order."""
    return list(dict.fromkeys(row.handler for row in rows))


@dataclass(frozen=True)
class Bench:
    """Which core takes the spans, and which one is measured; and how often."""

    sink_core: int
    client_core: int
    rounds: int
    # Of one client at one size.
    seconds: float
