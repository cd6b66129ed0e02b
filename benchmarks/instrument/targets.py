"""Maximum costs of events, and their results."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.common.target_results import TargetResult

from .measurement import Measurement

# Nanoseconds.
GUARD = 25.0
SILENT_OVER_HEARD = 2.5
REALTIME_OVER_DATETIME = 3.4
# Per cent of a job.
UNHEARD = 1.0


def check_targets(found: Measurement) -> list[TargetResult]:
    """Every target of the parts that were run."""
    return [*_calls(found), *_allocated(found), *_jobs(found)]


def _calls(found: Measurement) -> Iterator[TargetResult]:
    if not found.calls:
        return
    nanoseconds = {call.name: call.typical for call in found.calls}
    yield TargetResult("`if event:` with no listener, ns", "<=", GUARD, nanoseconds["guard"])
    ratio = nanoseconds["measure-heard"] / nanoseconds["measure"]
    yield TargetResult("`measure` with one listener over none, time", ">=", SILENT_OVER_HEARD, ratio)
    ratio = nanoseconds["measure"] / nanoseconds["blinker"]
    yield TargetResult("`measure` with no listener over blinker without receiver, time", "<", 1.0, ratio)
    ratio = nanoseconds["datetime"] / nanoseconds["realtime"]
    yield TargetResult(
        "`datetime.now(UTC).timestamp()` over `clock.realtime()`, time", ">=", REALTIME_OVER_DATETIME, ratio
    )


def _allocated(found: Measurement) -> Iterator[TargetResult]:
    for row in found.allocated:
        if row.silent:
            text = f"{row.title}, {row.calls:,} times: bytes"
            yield TargetResult(text, "<=", 0, max(row.left, row.peak))
            yield TargetResult(f"{row.title}, {row.calls:,} times: blocks", "<=", 0, row.blocks)


def _jobs(found: Measurement) -> Iterator[TargetResult]:
    for pair in found.jobs:
        yield TargetResult(f"calls without a listener, % of time: {pair.title}", "<", UNHEARD, pair.slower.middle)
        if (longer := pair.longer) is not None:
            yield TargetResult(f"calls without a listener, % of instructions: {pair.title}", "<", UNHEARD, longer)
