"""Targets of tracing, and their results."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.common.target_results import TargetResult

from .measurement import Measurement, handlers

# Calls per second over those of the faster ddtrace, by spans.
FASTER = {1: 1.3, 10: 1.3, 100: 3.0, 1_000: 10.0}
# Of the others' time.
CHILD = 0.1
# Beside an agent that is well: jobs per second, and CPU for each. On a quiet machine; else both move by more.
BAD_AGENT = 0.95
BAD_AGENT_CPU = 1.05
# Beyond the process without a tracer: `max_bytes` of spans (32 MiB), and what malloc and the encoder take beside them.
MEMORY_MB = 64.0


def check_targets(found: Measurement) -> list[TargetResult]:
    """Every target of the parts that were run."""
    return [*_sent(found), *_written(found), *_jobs(found)]


def _sent(found: Measurement) -> Iterator[TargetResult]:
    for spans, wanted in FASTER.items():
        rows = found.of_size(spans)
        if not rows:
            continue
        ours = rows.get("grete")
        theirs = [row for name, row in rows.items() if name.startswith("ddtrace")]
        faster = None if ours is None or not theirs else min(row.typical for row in theirs) / ours.typical
        yield TargetResult(f"send, {spans:,} spans: calls/s over ddtrace's", ">=", wanted, faster)
        sizes = [row.bytes for row in theirs if row.bytes is not None]
        less = None if ours is None or ours.bytes is None or not sizes else ours.bytes / min(sizes)
        yield TargetResult(f"send, {spans:,} spans: bytes allocated over ddtrace's", "<", 1.0, less)


def _written(found: Measurement) -> Iterator[TargetResult]:
    by_name = {row.name: row for row in found.written}
    ours = by_name.pop("grete", None)
    for row in by_name.values():
        ratio = None if ours is None else ours.typical / row.typical
        yield TargetResult(f"child: over {row.title}'s time", "<=", CHILD, ratio)


def _jobs(found: Measurement) -> Iterator[TargetResult]:
    for handler in handlers(found.jobs):
        rows = found.of_handler(handler)
        well, without = rows.get("well"), rows.get("none")
        for agent, row in rows.items():
            if agent in ("none", "well"):
                continue
            about = f"jobs, {handler}: agent {row.title}"
            rate, cpu = (None, None) if well is None else (row.typical / well.typical, row.cpu / well.cpu)
            yield TargetResult(f"{about}, jobs/s over a good one's", ">=", BAD_AGENT, rate)
            yield TargetResult(f"{about}, CPU over a good one's", "<=", BAD_AGENT_CPU, cpu)
        traced = [row for agent, row in rows.items() if agent != "none"]
        if traced:
            most = None if without is None else (max(row.rss for row in traced) - without.rss) / 1e6
            yield TargetResult(f"jobs, {handler}: memory of the tracer, MB", "<=", MEMORY_MB, most)
            lost = float(max(row.unaccounted for row in traced))
            yield TargetResult(f"jobs, {handler}: spans that are not counted", "<=", 0.0, lost)
