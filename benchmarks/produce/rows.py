"""From single runs to the rows of the tables: medians of the rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any


def percentile(values: Sequence[int], share: float) -> float:
    """The value that `share` of all do not exceed, of nanoseconds in microseconds."""
    ordered = sorted(values)
    return ordered[int((len(ordered) - 1) * share)] / 1e3


@dataclass(frozen=True)
class SyncRun:
    """One client, one round: sends one after the other."""

    row: str
    title: str
    version: str
    records: int
    p50_us: float
    p99_us: float
    max_us: float
    mean_us: float
    cpu_us: float
    caller_switches: float | None
    process_switches: float
    handover_p50_us: float | None
    handover_p99_us: float | None
    peak_rss: int

    @classmethod
    def read(cls, row: str, title: str, line: dict[str, Any]) -> SyncRun:
        """From the JSON line that a client prints."""
        latencies: list[int] = line["latencies_ns"]
        handovers: list[int] | None = line.get("handovers_ns")
        records = len(latencies)
        caller = line.get("caller_switches")
        return cls(
            row,
            title,
            line["version"],
            records,
            percentile(latencies, 0.5),
            percentile(latencies, 0.99),
            percentile(latencies, 1.0),
            fmean(latencies) / 1e3,
            1e6 * line["cpu_seconds"] / records,
            None if caller is None else caller / records,
            line["process_switches"] / records,
            percentile(handovers, 0.5) if handovers else None,
            percentile(handovers, 0.99) if handovers else None,
            line["peak_rss"],
        )


@dataclass(frozen=True)
class SyncRow(SyncRun):
    """The medians of a client's runs; `max_us` is the largest of all."""

    runs: int = 0


def sync_rows(runs: Iterable[SyncRun]) -> dict[str, SyncRow]:
    """By row, in the order of the first runs."""
    groups: dict[str, list[SyncRun]] = {}
    for run in runs:
        groups.setdefault(run.row, []).append(run)
    return {name: _sync_row(group) for name, group in groups.items()}


def _sync_row(group: list[SyncRun]) -> SyncRow:
    first = group[0]
    return SyncRow(
        first.row,
        first.title,
        first.version,
        first.records,
        median(run.p50_us for run in group),
        median(run.p99_us for run in group),
        max(run.max_us for run in group),
        median(run.mean_us for run in group),
        median(run.cpu_us for run in group),
        _median(run.caller_switches for run in group),
        median(run.process_switches for run in group),
        _median(run.handover_p50_us for run in group),
        _median(run.handover_p99_us for run in group),
        int(median(run.peak_rss for run in group)),
        len(group),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


@dataclass(frozen=True)
class ThroughputRun:
    """One pass of one client into one shape of topic."""

    shape: str
    row: str
    title: str
    version: str
    counted: int
    seconds: float
    cpu_seconds: float
    peak_rss: int

    @classmethod
    def read(cls, shape: str, row: str, title: str, line: dict[str, Any]) -> ThroughputRun:
        """From the JSON line that a client prints."""
        return cls(
            shape,
            row,
            title,
            line["version"],
            line["counted"],
            line["seconds"],
            line["cpu_seconds"],
            line["peak_rss"],
        )


@dataclass(frozen=True)
class ThroughputRow:
    """The medians of a client's runs into one shape of topic."""

    shape: str
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


def throughput_rows(runs: Iterable[ThroughputRun]) -> dict[tuple[str, str], ThroughputRow]:
    """By (shape, row), in the order of the first runs."""
    groups: dict[tuple[str, str], list[ThroughputRun]] = {}
    for run in runs:
        groups.setdefault((run.shape, run.row), []).append(run)
    return {key: _throughput_row(group) for key, group in groups.items()}


def _throughput_row(group: list[ThroughputRun]) -> ThroughputRow:
    first = group[0]
    rates = [run.counted / run.seconds for run in group]
    return ThroughputRow(
        first.shape,
        first.row,
        first.title,
        first.version,
        len(group),
        median(rates),
        min(rates),
        max(rates),
        # Java's clock ticks in 10 ms and may say 0 for a few records: the ratios stay finite.
        max(median(run.cpu_seconds / run.counted for run in group) * 1e6, 1e-6),
        median(run.cpu_seconds / run.seconds for run in group),
        int(median(run.peak_rss for run in group)),
    )


@dataclass(frozen=True)
class Waited:
    """Usage of one client's threads while one sync send waited for a broker that hung."""

    client: str
    title: str
    seconds: float
    switches: int
    threads: int
    cpu_ms: float
