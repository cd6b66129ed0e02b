"""Targets of Grete relative to the other clients, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks.common.target_results import TargetResult

from .rows import SyncRow, ThroughputRow, Waited

# The caller runs at most so long after its answer was read, half of the times.
HANDOVER_US = 20.0
# "No wake-ups while waiting": all threads together, so many in the whole wait.
SWITCHES = 5


def judge_sync(rows: Mapping[str, SyncRow]) -> Iterator[TargetResult]:
    """The sync part: latencies in ratios, the hand-over in microseconds."""
    grete = rows.get("grete")

    def ratio(name: str, figure: Callable[[SyncRow], float], *, inverse: bool = False) -> float | None:
        other = rows.get(name)
        if grete is None or other is None:
            return None
        return figure(other) / figure(grete) if inverse else figure(grete) / figure(other)

    yield TargetResult("sync, p50: produce_sync over the floor", "<=", 1.2, ratio("floor", lambda row: row.p50_us))
    yield TargetResult(
        "sync, p50: produce_sync over confluent-kafka's produce + flush",
        "<",
        1.0,
        ratio("confluent-flush", lambda row: row.p50_us),
    )
    handover = grete.handover_p50_us if grete is not None else None
    yield TargetResult("sync, answer read to caller runs, p50 in us", "<=", HANDOVER_US, handover)
    yield TargetResult(
        "sync, mean: sleeping 100 ms until it is done over produce_sync",
        ">=",
        16.0,
        ratio("grete-sleep", lambda row: row.mean_us, inverse=True),
    )


def judge_throughput(shape: str, rows: Mapping[tuple[str, str], ThroughputRow]) -> Iterator[TargetResult]:
    """Records per CPU second over confluent-kafka's without callbacks, which is its faster way."""
    peer = rows.get((shape, "confluent"))
    for name, what, factor in (("grete-one", "produce one by one", 3.0), ("grete-many", "produce_many", 8.0)):
        row = rows.get((shape, name))
        measured = None if row is None or peer is None else row.per_cpu_second / peer.per_cpu_second
        yield TargetResult(
            f"{shape}, records per CPU second: {what} over confluent-kafka's produce", ">=", factor, measured
        )


def judge_waiting(waited: Mapping[str, Waited]) -> Iterator[TargetResult]:
    """Context switches, voluntary or not, of all threads."""
    grete = waited.get("grete")
    measured = None if grete is None else float(grete.switches)
    yield TargetResult("waiting, context switches of all threads in the whole wait", "<=", SWITCHES, measured)
