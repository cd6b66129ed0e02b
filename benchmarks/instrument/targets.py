"""What events have to cost at most, and whether they do."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.common.verdicts import Verdict

from .measurement import Measurement

# Nanoseconds.
GUARD = 25.0
SILENT_OVER_HEARD = 2.5
REALTIME_OVER_DATETIME = 3.4
# Per cent of a job.
UNHEARD = 1.0


def judge(found: Measurement) -> list[Verdict]:
    """Every target of the parts that were run."""
    return [*_calls(found), *_allocated(found), *_jobs(found)]


def _calls(found: Measurement) -> Iterator[Verdict]:
    if not found.calls:
        return
    nanoseconds = {call.name: call.typical for call in found.calls}
    yield Verdict("`if event:` with no listener, ns", "<=", GUARD, nanoseconds["guard"])
    ratio = nanoseconds["measure-heard"] / nanoseconds["measure"]
    yield Verdict("`measure` with one listener over none, time", ">=", SILENT_OVER_HEARD, ratio)
    ratio = nanoseconds["measure"] / nanoseconds["blinker"]
    yield Verdict("`measure` with no listener over blinker without receiver, time", "<", 1.0, ratio)
    ratio = nanoseconds["datetime"] / nanoseconds["realtime"]
    yield Verdict("`datetime.now(UTC).timestamp()` over `clock.realtime()`, time", ">=", REALTIME_OVER_DATETIME, ratio)


def _allocated(found: Measurement) -> Iterator[Verdict]:
    for row in found.allocated:
        if row.silent:
            text = f"{row.title}, {row.calls:,} times: bytes"
            yield Verdict(text, "<=", 0, max(row.left, row.peak))
            yield Verdict(f"{row.title}, {row.calls:,} times: blocks", "<=", 0, row.blocks)


def _jobs(found: Measurement) -> Iterator[Verdict]:
    for pair in found.jobs:
        yield Verdict(f"calls that nobody hears, % of time: {pair.title}", "<", UNHEARD, pair.slower.middle)
        if (longer := pair.longer) is not None:
            yield Verdict(f"calls that nobody hears, % of instructions: {pair.title}", "<", UNHEARD, longer)
