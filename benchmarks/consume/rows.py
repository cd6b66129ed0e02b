"""From single runs to the rows of the table: medians."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Run:
    """One pass of one client over one topic."""

    topic: str
    row: str
    title: str
    counted: int
    seconds: float
    cpu_seconds: float
    peak_rss: int
    version: str

    @classmethod
    def read(cls, topic: str, row: str, title: str, line: dict[str, Any]) -> Run:
        """From the JSON line that a client prints."""
        return cls(
            topic,
            row,
            title,
            line["counted"],
            line["seconds"],
            line["cpu_seconds"],
            line["peak_rss"],
            line["version"],
        )


@dataclass(frozen=True)
class Row:
    """The median of all runs of one row on one topic."""

    topic: str
    row: str
    title: str
    version: str
    runs: int
    per_second: float
    slowest: float
    fastest: float
    cpu_per_million: float
    utilisation: float
    peak_rss: int

    @property
    def per_cpu_second(self) -> float:
        return 1e6 / self.cpu_per_million


def rows(runs: Iterable[Run]) -> dict[tuple[str, str], Row]:
    """Medians by (topic, row), in the order of the first runs."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.topic, run.row), []).append(run)
    return {key: _row(group) for key, group in groups.items()}


def _row(group: list[Run]) -> Row:
    first = group[0]
    rates = [run.counted / run.seconds for run in group]
    return Row(
        first.topic,
        first.row,
        first.title,
        first.version,
        len(group),
        median(rates),
        min(rates),
        max(rates),
        # Java's clock ticks in 10 ms and may say 0 on a tiny topic: the ratios stay finite.
        max(median(run.cpu_seconds / run.counted for run in group) * 1e6, 1e-6),
        median(run.cpu_seconds / run.seconds for run in group),
        int(median(run.peak_rss for run in group)),
    )
