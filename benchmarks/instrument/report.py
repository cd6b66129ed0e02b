"""The tables and the list of targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.common import results
from benchmarks.common.table import number, table
from benchmarks.common.target_results import target_table

from .measurement import Measurement, Pair
from .targets import check_targets

CALLS_HEAD = ("a single call", "ns (min..max)")
ALLOCATED_HEAD = ("allocated", "calls", "bytes left", "bytes at the peak", "blocks left")
JOBS_HEAD = ("a job", "without the calls, us", "with them: % of time (95 %)", "% of instructions")
LISTENERS_HEAD = ("a job, and its listener", "without, us", "more, ns (95 %)", "jobs/s of a core")
SCRAPES_HEAD = ("all metrics, reported once", "us", "% of a core, every 10 s")


def calls_table(found: Measurement) -> str:
    """One line per call."""
    lines = [
        (
            call.title,
            f"{number(call.typical)} ({number(min(call.nanoseconds))}..{number(max(call.nanoseconds))})",
        )
        for call in found.calls
    ]
    return table(CALLS_HEAD, lines)


def allocated_table(found: Measurement) -> str:
    """One line per call."""
    lines = [
        (row.title, f"{row.calls:,}", f"{row.left:,}", f"{row.peak:,}", f"{row.blocks:,}") for row in found.allocated
    ]
    return table(ALLOCATED_HEAD, lines)


def jobs_table(found: Measurement) -> str:
    """One line per handler."""
    lines = [
        (
            pair.title,
            number(pair.microseconds),
            str(pair.slower),
            "" if pair.longer is None else f"{pair.longer:.2f}",
        )
        for pair in found.jobs
    ]
    return table(JOBS_HEAD, lines)


def listeners_table(found: Measurement) -> str:
    """One line per listener."""
    lines = []
    for pair in found.listeners:
        more = pair.nanoseconds
        low, high = number(more.low), number(more.high)
        lines.append(
            (
                pair.title,
                number(pair.microseconds),
                f"{number(more.middle)} ({low}..{high})",
                f"{1e6 / (pair.whole + more.middle / 1e3):,.0f}",
            )
        )
    return table(LISTENERS_HEAD, lines)


def scrapes_table(found: Measurement) -> str:
    """One line per way and number of partitions."""
    lines = [(call.title, number(call.typical / 1e3), f"{100 * call.typical / 10e9:.4f}") for call in found.scrapes]
    return table(SCRAPES_HEAD, lines)


def markdown(facts: Mapping[str, Any], found: Measurement) -> str:
    """The whole page."""
    parts = ["# Cost of events", results.paragraph(facts)]
    parts.append(", ".join(f"{name} {version}" for name, version in facts["peers"].items()))
    if found.calls:
        parts += ["## Single calls", calls_table(found), allocated_table(found)]
        parts.append(
            f"{len(found.calls[0].nanoseconds)} rounds in which all take turns, medians; `f` is an empty function. The "
            "share of the loop around them is taken off, in time and in memory."
        )
    if found.jobs:
        parts += ["## Jobs without a listener", jobs_table(found)]
        parts.append(
            "From the dispatcher through a worker thread, or the event loop, to the handler and back, without network "
            "and broker, with one thread on one core. Beside it the same with all calls taken out of the source that "
            f"emit events: {len(found.jobs[0].rounds)} pairs of rounds in several processes, which of the two goes "
            "first changes; medians of the ratios, and where 95 of 100 such medians would be. Where code and objects "
            "happen to lie in memory is worth a per cent of time, but no instructions."
        )
    if found.listeners:
        parts += ["## Jobs with a listener", listeners_table(found)]
        parts.append(
            "Additional cost of a job, in time of all threads, until all that its listener got is sent. The agent "
            "is a process of its own. Jobs of one record that do nothing: nothing else makes a listener weigh as much."
        )
    if found.scrapes:
        parts += [scrapes_table(found)]
    parts += ["## Targets", target_table(check_targets(found))]
    return "\n\n".join(parts)


def _summed(pair: Pair) -> dict[str, Any]:
    """Hundreds of rounds in a few figures."""
    return {
        "name": pair.name,
        "title": pair.title,
        "records": pair.records,
        "rounds": len(pair.rounds),
        "without_us": pair.microseconds,
        "without_us_of_all_threads": pair.whole,
        "slower_percent": asdict(pair.slower),
        "instructions_percent": pair.longer,
        "more_ns_of_all_threads": asdict(pair.nanoseconds),
    }


def data(facts: Mapping[str, Any], found: Measurement) -> dict[str, Any]:
    """Data for machines: single rounds of calls, sums of jobs, results of targets."""
    return {
        **facts,
        **asdict(found),
        "jobs": [_summed(pair) for pair in found.jobs],
        "listeners": [_summed(pair) for pair in found.listeners],
        "targets": [asdict(result) | {"outcome": result.word} for result in check_targets(found)],
    }
