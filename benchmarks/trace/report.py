"""The tables and the list of targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.common import results
from benchmarks.common.table import number, table
from benchmarks.common.target_results import target_table

from .catalogue import SIZES
from .clients.children import CHILDREN
from .measurement import Measurement, handlers
from .targets import check_targets

SENT_HEAD = ("encode and send", "spans", "calls/s (min..max)", "us", "CPU us", "bytes", "objects", "Grete / this")
WRITTEN_HEAD = ("a child span with two tags", "us (min..max)", "Grete / this", "us until sent", "Grete / this")
JOBS_HEAD = ("agent", "jobs/s (min..max)", "/ a good one", "CPU us", "peak RSS MB", "sent", "waiting", "dropped")


def sent_table(found: Measurement) -> str:
    """By size, all clients."""
    lines = []
    for spans in SIZES:
        rows = found.of_size(spans)
        ours = rows.get("grete")
        lines += [
            (
                row.title,
                f"{row.spans:,}",
                f"{row.per_second:,.0f} ({1 / max(row.seconds):,.0f}..{1 / min(row.seconds):,.0f})",
                number(1e6 * row.typical),
                number(1e6 * median(row.cpu_seconds)),
                "" if row.bytes is None else f"{row.bytes:,.0f}",
                "" if row.objects is None else f"{row.objects:,.0f}",
                "" if ours is None else number(row.typical / ours.typical),
            )
            for row in rows.values()
        ]
    return table(SENT_HEAD, lines)


def written_table(found: Measurement) -> str:
    """One line per client."""
    ours = next((row for row in found.written if row.name == "grete"), None)
    lines = []
    for row in found.written:
        sent = median(row.sent_microseconds)
        our_sent = None if ours is None else median(ours.sent_microseconds)
        lines.append(
            (
                row.title,
                f"{row.typical:.2f} ({min(row.microseconds):.2f}..{max(row.microseconds):.2f})",
                "" if ours is None else number(ours.typical / row.typical),
                f"{sent:.2f}",
                "" if our_sent is None else number(our_sent / sent),
            )
        )
    return table(WRITTEN_HEAD, lines)


def jobs_table(found: Measurement, handler: str) -> str:
    """One line per agent."""
    rows = found.of_handler(handler)
    well = rows.get("well")
    lines = [
        (
            row.title,
            f"{row.typical:,.0f} ({min(row.per_second):,.0f}..{max(row.per_second):,.0f})",
            "" if well is None or row.agent == "none" else f"{row.typical / well.typical:.2f}",
            number(row.cpu),
            f"{row.rss / 1e6:.0f}",
            f"{row.sent:,}",
            f"{row.waiting:,}",
            ", ".join(f"{reason} {count:,}" for reason, count in row.dropped.items()),
        )
        for row in rows.values()
    ]
    return table(JOBS_HEAD, lines)


def markdown(facts: Mapping[str, Any], found: Measurement) -> str:
    """The whole page."""
    parts = ["# Traces", results.paragraph(facts)]
    versions = dict.fromkeys([*(row.version for row in found.sent), *(row.version for row in found.written)])
    if versions:
        parts.append(f"{', '.join(versions)}. Medians of {facts['rounds']} rounds in which all take turns, pinned.")
    if found.sent:
        parts += ["## Encode and send", sent_table(found)]
        parts.append(
            "One trace, five tags on each span, all of them finished before the clock starts. One call: encoded, sent "
            "over a kept connection to a server that looks at none of it, and its answer read. Grete: `flush`, which "
            "has another thread do it. ddtrace: `write` of its native writer in its synchronous way, which encodes in "
            "Cython and sends from Rust. By hand: a dict of each span, msgpack, http.client. Bytes and objects: all "
            "that is allocated meanwhile, by Python and by libraries, in all threads; counted in runs of their own."
        )
    if found.written:
        parts += ["## A child span", written_table(found)]
        parts.append(
            f"`with tracer.start(name)`, or what it is called there, and two tags; {CHILDREN} of them one after the "
            "other under a parent. First the time until they have ended; then with all that comes of them, until the "
            "agent has answered."
        )
    for handler in handlers(found.jobs):
        parts += [f"## Jobs whose agent does not take it: handler {handler}", jobs_table(found, handler)]
    if found.jobs:
        parts.append(
            "Jobs of one record, from the dispatcher through a worker to the handler and back, without a broker; a "
            "span for each, sent every 0.2 s. `empty` does nothing, `works` some fifty microseconds of Python. CPU is "
            "that of all threads for one job. Sent, waiting and dropped are counted from the process's start to the "
            "end of its window, in the last round."
        )
    parts += ["## Targets", target_table(check_targets(found))]
    if found.failures:
        parts += ["## Failed", *(f"```\n{failure}\n```" for failure in found.failures)]
    return "\n\n".join(parts)


def data(facts: Mapping[str, Any], found: Measurement) -> dict[str, Any]:
    """Data for machines: all rounds, results of targets."""
    return {
        **facts,
        **asdict(found),
        "targets": [asdict(result) | {"outcome": result.word} for result in check_targets(found)],
    }
