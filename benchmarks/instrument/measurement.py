"""Everything that one call of the benchmark found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from benchmarks.common.paired import Interval


@dataclass(frozen=True)
class Call:
    """A single call: nanoseconds in each round, without the loop around it."""

    name: str
    title: str
    nanoseconds: tuple[float, ...]

    @property
    def typical(self) -> float:
        """Nanoseconds."""
        return median(self.nanoseconds)


@dataclass(frozen=True)
class Allocated:
    """Bytes and blocks that many calls leave behind, and their peaks meanwhile; without the loop's own.

    `silent`: without a listener.
    """

    title: str
    silent: bool
    calls: int
    left: int
    peak: int
    blocks: int


@dataclass(frozen=True)
class Cost:
    """Cost of a job in one round: microseconds of the thread that runs handlers and of the whole process; that thread's
    instructions, where they can be counted.
    """

    thread: float
    process: float
    instructions: float | None


@dataclass(frozen=True)
class Pair:
    """Jobs in two ways, round by round: `without` and `with` something."""

    name: str
    title: str
    records: int
    rounds: tuple[tuple[Cost, Cost], ...]

    @property
    def microseconds(self) -> float:
        """Microseconds of a job without."""
        return median(without.thread for without, _ in self.rounds)

    @property
    def whole(self) -> float:
        """The same of all threads."""
        return median(without.process for without, _ in self.rounds)

    @property
    def slower(self) -> Interval:
        """By how many per cent more time of its thread a job takes with it."""
        return Interval.of([100 * (added.thread / without.thread - 1) for without, added in self.rounds])

    @property
    def longer(self) -> float | None:
        """By how many per cent more instructions."""
        counted = [
            100 * (added.instructions / without.instructions - 1)
            for without, added in self.rounds
            if added.instructions is not None and without.instructions is not None
        ]
        return median(counted) if counted else None

    @property
    def nanoseconds(self) -> Interval:
        """Additional time of a job, of all threads."""
        return Interval.of([1e3 * (added.process - without.process) for without, added in self.rounds])


@dataclass
class Measurement:
    """By part."""

    calls: list[Call] = field(default_factory=list)
    allocated: list[Allocated] = field(default_factory=list)
    jobs: list[Pair] = field(default_factory=list)
    listeners: list[Pair] = field(default_factory=list)
    scrapes: list[Call] = field(default_factory=list)

    def add(self, line: Mapping[str, Any]) -> None:
        """Adds another process's findings, made by `dataclasses.asdict`. Rounds of the same jobs are joined."""
        self.calls += map(_call, line["calls"])
        self.allocated += (Allocated(**row) for row in line["allocated"])
        self.scrapes += map(_call, line["scrapes"])
        for pairs, rows in ((self.jobs, line["jobs"]), (self.listeners, line["listeners"])):
            for row in map(_pair, rows):
                at = next((at for at, pair in enumerate(pairs) if pair.name == row.name), None)
                if at is None:
                    pairs.append(row)
                else:
                    pairs[at] = replace(row, rounds=pairs[at].rounds + row.rounds)


def _call(row: Mapping[str, Any]) -> Call:
    return Call(row["name"], row["title"], tuple(row["nanoseconds"]))


def _pair(row: Mapping[str, Any]) -> Pair:
    rounds = tuple((Cost(**without), Cost(**added)) for without, added in row["rounds"])
    return Pair(row["name"], row["title"], row["records"], rounds)
