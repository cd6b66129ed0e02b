"""The tables and the list of targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.common import results
from benchmarks.common.table import table
from benchmarks.common.target_results import target_table

from .cpu import STEPS
from .measurement import Measurement, rows_of
from .memory import TOPIC
from .targets import check_targets

CPU_HEAD = ("two threads that compute", "records/s (min..max)", "x one process")
MEMORY_HEAD = ("300 MB preloaded", "processes", "sum of PSS, MB", "x one process", "sum of RSS, MB", "private, MB")
KINDS_HEAD = ("private memory of the largest process, MB", "grete run", "a node")
DELAYS_HEAD = ("delay, ms", "median", "p99", "longest", "times")
IDLE_HEAD = ("idle", "wake-ups/s", "CPU ms/s", "threads", "by thread: wake-ups/s, CPU us/s")


def cpu_table(found: Measurement) -> str:
    """One line per way."""
    base = next((row.typical for row in found.cpu if row.name == "threads"), None)
    lines = [
        (
            row.title,
            f"{row.typical:,.0f} ({min(row.per_second):,.0f}..{max(row.per_second):,.0f})",
            f"{row.typical / base:.2f}" if base else "",
        )
        for row in found.cpu
    ]
    return table(CPU_HEAD, lines)


def memory_table(found: Measurement) -> str:
    """One line per way."""
    base = rows_of(found.memory, "one")
    lines = [
        (
            f"{row.title}, {row.seconds:.0f} s",
            str(row.processes),
            f"{row.pss / 1e6:,.0f}",
            f"{row.pss / base.pss:.2f}" if base else "",
            f"{row.rss / 1e6:,.0f}",
            f"{row.private / 1e6:,.0f}",
        )
        for row in found.memory
    ]
    return table(MEMORY_HEAD, lines)


def kinds_table(found: Measurement) -> str:
    """Table of private memory by kind."""
    columns = [row.kinds if row else {} for row in (rows_of(found.memory, name) for name in ("one", "nodes"))]
    names = sorted({name for kinds in columns for name in kinds}, key=lambda name: -columns[1].get(name, 0))
    lines = [(name, *(f"{kinds.get(name, 0) / 1e6:,.1f}" for kinds in columns)) for name in names]
    lines.append(("together", *(f"{sum(kinds.values()) / 1e6:,.1f}" for kinds in columns)))
    return table(KINDS_HEAD, lines)


def delays_table(found: Measurement) -> str:
    """One line per delay."""
    lines = [
        (row.title, *(f"{1e3 * row.share(part):,.1f}" for part in (0.5, 0.99, 1.0)), str(len(row.seconds)))
        for row in found.delays
    ]
    return table(DELAYS_HEAD, lines)


def idle_table(found: Measurement) -> str:
    """One line per process."""
    lines = [
        (
            row.title,
            f"{row.wakeups_per_second:.2f}",
            f"{row.cpu_ms_per_second:.3f}",
            str(row.threads),
            "; ".join(f"{name} {wakeups:.2f}, {cpu:.0f}" for name, (wakeups, cpu) in sorted(row.by_thread.items())),
        )
        for row in found.idle
    ]
    return table(IDLE_HEAD, lines)


def markdown(facts: Mapping[str, Any], found: Measurement) -> str:
    """The whole page."""
    parts = ["# Swarm", results.paragraph(facts)]
    if found.cpu:
        parts += ["## A handler that computes", cpu_table(found)]
        parts.append(
            f"{STEPS:,} steps of a Python loop for each record, {found.cpu[0].rounds} interleaved rounds, medians; "
            "broker and handlers share both cores."
        )
    if found.memory:
        parts += ["## Memory", memory_table(found), kinds_table(found)]
        reading = ", ".join(f"{row.title} {1e3 * row.reading:.1f} ms" for row in found.memory)
        parts.append(
            f'150 MB of bytes, 150 MB of small objects; {TOPIC.partitions} partitions, queued_bytes="8MiB", 5 workers '
            "for each process, always more to do. For each record the handler reads 1,000 objects: the same ones, or "
            "(each object is read) any. PSS: the largest sum in the last third of the load. Reading the PSS of one "
            f"process takes: {reading}."
        )
    if found.delays:
        parts += ["## Delays", delays_table(found)]
        parts.append("4 nodes under load with static membership, restart_backoff 250 ms, gil_timeout 1 s.")
    if found.idle:
        parts += ["## Waiting for records", idle_table(found)]
        parts.append("An empty topic with 20 partitions. Wake-ups are voluntary context switches of all threads.")
    parts += ["## Targets", target_table(check_targets(found))]
    if found.failures:
        parts += ["## Failed", *(f"```\n{failure}\n```" for failure in found.failures)]
    return "\n\n".join(parts)


def data(facts: Mapping[str, Any], found: Measurement) -> dict[str, Any]:
    """Data for machines: single windows, all delays, results of targets."""
    return {
        **facts,
        **asdict(found),
        "targets": [asdict(result) | {"outcome": result.word} for result in check_targets(found)],
    }
