"""Targets of swarms, and their results."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.common.target_results import TargetResult

from .measurement import Measurement, rows_of

NODES_OVER_THREADS = 1.8
SWARM_OVER_ONE = 1.25
# Seconds.
DEATH = 0.020
WEDGE = 2.0
BACKOFF = 0.050
# Of the supervisor; and of the threads that look after a node, which wake once a second each, and sometimes for a lock.
WAKEUPS = 2.0
HEALTH_WAKEUPS = 2.5
CPU_MS = 1.0


def check_targets(found: Measurement) -> list[TargetResult]:
    """Every target of the parts that were run."""
    return [*_cpu(found), *_memory(found), *_delays(found), *_idle(found)]


def _cpu(found: Measurement) -> Iterator[TargetResult]:
    if found.cpu:
        by_name = {row.name: row.typical for row in found.cpu}
        nodes, threads = by_name.get("nodes"), by_name.get("threads")
        ratio = None if nodes is None or threads is None else nodes / threads
        yield TargetResult("cpu, records/s: 2 nodes over 2 threads of one process", ">=", NODES_OVER_THREADS, ratio)


def _memory(found: Measurement) -> Iterator[TargetResult]:
    if found.memory:
        nodes, one = rows_of(found.memory, "nodes"), rows_of(found.memory, "one")
        ratio = None if nodes is None or one is None else nodes.pss / one.pss
        yield TargetResult("memory, PSS: 4 nodes and supervisor over one process", "<=", SWARM_OVER_ONE, ratio)


def _delays(found: Measurement) -> Iterator[TargetResult]:
    limits = {
        "kill": ("SIGKILL to death noticed, p99, ms", 0.99, DEATH),
        "wedge": ("GIL held to noticed beyond its limit, longest, ms", 1.0, WEDGE),
        "backoff": ("restart's distance from the backoff, longest, ms", 1.0, BACKOFF),
    }
    for name, (text, share, limit) in limits.items():
        if row := found.delay(name):
            yield TargetResult(f"delays, {text}", "<=", 1e3 * limit, 1e3 * row.share(share))


def _idle(found: Measurement) -> Iterator[TargetResult]:
    by_name = {row.name: row for row in found.idle}
    if supervisor := by_name.get("supervisor"):
        yield TargetResult("idle, supervisor: wake-ups/s", "<=", WAKEUPS, supervisor.wakeups_per_second)
        yield TargetResult("idle, supervisor: CPU ms/s", "<=", CPU_MS, supervisor.cpu_ms_per_second)
    if node := by_name.get("node"):
        health = sum(node.by_thread.get(thread, (0.0, 0.0))[0] for thread in ("grete-health", "grete-gil-probe"))
        yield TargetResult("idle, health threads of a node: wake-ups/s", "<=", HEALTH_WAKEUPS, health)
