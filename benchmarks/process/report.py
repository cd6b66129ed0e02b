"""The tables and the list of targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.common import results, svg
from benchmarks.common.table import number, table
from benchmarks.common.target_results import target_table
from benchmarks.consume.rows import Row, rows

from . import stuck, transform, waiting, wakeups
from .catalogue import PARTS, Part
from .measurement import Measurement, Transform
from .targets import check_targets

# Pixels for the longest title of a client.
_LABEL = 370
CALLS_HEAD = ("client", "CPU us per record", "CPU s per 1M", "x", "k records/s (min..max)", "core used", "peak RSS MB")
WAITING_HEAD = ("route", "partitions", "records/s (min..max)", "x partition", "CPU s per 1M")
WAKEUPS_HEAD = ("jobs of one record", "jobs/s", "handler", "worker beyond", "process beyond")
IDLE_HEAD = ("App", "wake-ups/s", "CPU ms/s", "threads")
CROWD_HEAD = ("blocked background threads", "k jobs per CPU s", "vs none", "k jobs/s", "phases")
TRANSFORM_HEAD = (
    "loop",
    "partitions",
    "k records/s (min..max)",
    "CPU us per record",
    "x confluent-kafka",
    "written, not committed: records",
    "ms",
    "worst, records",
    "committed, not written",
)
STUCK_HEAD = ("stuck for s", "others before, records/s", "during", "kept", "worst partition", "rebalances")


def calls_table(part: Part, found: Mapping[tuple[str, str], Row]) -> str:
    """One line per client; `x` is CPU per record over that of the part's base."""
    base = found.get((part.name, part.base))
    lines = [
        (
            row.title,
            f"{row.cpu_per_million:.3f}",
            f"{row.cpu_per_million:.4f}",
            number(row.cpu_per_million / base.cpu_per_million) if base else "",
            f"{row.per_second / 1e3:,.0f} ({row.slowest / 1e3:,.0f}..{row.fastest / 1e3:,.0f})",
            f"{row.utilisation:.0%}",
            f"{row.peak_rss / 1e6:,.0f}",
        )
        for (of, _), row in found.items()
        if of == part.name
    ]
    return table(CALLS_HEAD, lines)


def settings_list(part: Part, found: Mapping[tuple[str, str], Row]) -> str:
    """Every client's version and settings."""
    lines = []
    for client in part.clients.values():
        row = found.get((part.name, client.name))
        if row is None:
            continue
        hidden = ("style", "payload", "backend")
        pairs = [f"{name}={value}" for name, value in client.settings.items() if name not in hidden]
        parts = [row.version, ", ".join(pairs) or "nothing tuned", *([client.note] if client.note else [])]
        lines.append(f"- **{client.title}**: {'; '.join(parts)}")
    return "\n".join(lines)


def waiting_table(found: Measurement) -> str:
    """One line per route; the ratio is to a plain function with concurrency="partition" on as many partitions."""
    base = {row.partitions: row.per_second for row in found.waiting if row.name.startswith("sync-partition")}
    lines = [
        (
            row.title,
            str(row.partitions),
            f"{row.per_second:,.0f} ({row.slowest:,.0f}..{row.fastest:,.0f})",
            number(row.per_second / base[row.partitions]) if row.partitions in base else "",
            number(row.cpu_per_million),
        )
        for row in found.waiting
    ]
    return table(WAITING_HEAD, lines)


def wakeups_parts(found: Measurement) -> Iterable[str]:
    """Up to three tables."""
    if found.wakeups:
        yield "## Wake-ups: voluntary context switches per job"
        yield table(
            WAKEUPS_HEAD,
            [
                (
                    row.title,
                    f"{row.jobs_per_second:,.0f}",
                    *(f"{switches:.2f}" for switches in (row.handler, row.worker, row.process)),
                )
                for row in found.wakeups
            ],
        )
        yield (
            f"{wakeups.WORKERS} workers, max_messages=1, {wakeups.TOPIC.partitions} partitions; one by key, and where "
            "records come one by one. `handler`: given up inside the handler; the others: beyond that."
        )
    if found.crowds:
        alone = found.crowds[0].jobs_per_cpu_second
        yield "## Jobs beside blocked background threads"
        yield table(
            CROWD_HEAD,
            [
                (
                    str(row.threads),
                    f"{row.jobs_per_cpu_second / 1e3:,.1f}",
                    f"{row.jobs_per_cpu_second / alone:.3f}",
                    f"{row.jobs_per_second / 1e3:,.1f}",
                    str(row.phases),
                )
                for row in found.crowds
            ],
        )
        yield "One process, one worker, jobs of one record; the phases take turns."
    if found.idle:
        yield "## An idle App"
        lines = [
            (row.title, f"{row.wakeups_per_second:.1f}", f"{row.cpu_ms_per_second:.3f}", str(row.threads))
            for row in found.idle
        ]
        yield table(IDLE_HEAD, lines)


def transform_table(found: Measurement) -> str:
    """One line per loop: medians of the rounds; the ratio is of CPU, to confluent-kafka on as many partitions."""
    groups: dict[str, list[Transform]] = {}
    for run in found.transforms:
        groups.setdefault(run.name, []).append(run)
    cpu = {name: median(run.cpu_us for run in runs) for name, runs in groups.items()}
    lines = []
    for name, runs in groups.items():
        rates = [run.per_second / 1e3 for run in runs]
        partitions = runs[0].partitions
        base = cpu.get(f"confluent-{partitions}")
        lines.append(
            (
                runs[0].title,
                str(partitions),
                f"{median(rates):,.0f} ({min(rates):,.0f}..{max(rates):,.0f})",
                f"{cpu[name]:.3f}",
                number(cpu[name] / base) if base else "",
                f"{median(run.lag for run in runs):,.0f}",
                f"{median(run.lag_ms for run in runs):,.0f}",
                f"{max(run.worst_lag for run in runs):,}",
                f"{max(run.ahead for run in runs):,}",
            )
        )
    return table(TRANSFORM_HEAD, lines)


def stuck_table(found: Measurement) -> str:
    """One line."""
    lines = [
        (
            f"{row.seconds:g}",
            f"{row.before:,.0f}",
            f"{row.during:,.0f}",
            f"{row.during / row.before:.1%}",
            f"{row.worst:.1%}",
            str(row.rebalances),
        )
        for row in found.stuck
    ]
    names = [f"- {text}" for row in found.stuck for text in (row.logged, row.shown) if text]
    return "\n".join([table(STUCK_HEAD, lines), "", *names])


def markdown(facts: Mapping[str, Any], found: Measurement, records: int, rounds: int) -> str:
    """The whole page."""
    medians = rows(found.runs)
    head = (
        f"Client on core {facts['cores']['client']}, medians of {rounds} interleaved rounds or of the windows of a "
        f"process. {records:,} records of ~107 B JSON with keys of 8 B in one partition, or as many of them as the "
        "settings say; a group, default commits. All handlers count, and do nothing else."
    )
    parts = ["# Process", results.paragraph(facts), head]
    for part in PARTS.values():
        if any(of == part.name for of, _ in medians):
            base = part.clients[part.base].title
            parts += [f"## {part.title}", calls_table(part, medians), f"`x`: CPU per record over that of {base}."]
    if found.waiting:
        parts += [f"## A handler that waits 1 ms, {waiting.WORKERS} workers", waiting_table(found)]
        parts.append("`async def` handlers run on one event loop (uvloop) in one thread, whatever `workers` says.")
    parts += wakeups_parts(found)
    if found.stuck:
        parts += [f"## One partition of {stuck.PARTITIONS} is stuck, {stuck.WORKERS} workers", stuck_table(found)]
    if found.transforms:
        versions = sorted({run.version for run in found.transforms})
        commit = ", ".join(f"{name}={value}" for name, value in transform.COMMIT.items())
        parts += ["## Consume, transform, produce", transform_table(found)]
        parts.append(
            f"{', '.join(versions)}; {transform.RECORDS:,} records of ~107 B at most, upper-cased into a topic with as "
            f"many partitions; one worker, {commit}; confluent-kafka: enable.idempotence=true. The clock stops when "
            "all is delivered and committed. `written, not committed`: how far the group's offsets are behind the "
            "output, at the median of looks every 0.1 s; below zero they are ahead of it. `committed, not written`: at "
            "the worst look."
        )
    parts += ["## Targets", target_table(check_targets(found))]
    settings: Sequence[str] = [settings_list(part, medians) for part in PARTS.values()]
    if any(settings):
        parts += ["## Versions and settings", "\n".join(text for text in settings if text)]
    if found.failures:
        parts += ["## Failed", *(f"```\n{failure}\n```" for failure in found.failures)]
    return "\n\n".join(parts)


def plot(facts: Mapping[str, Any], found: Iterable[Row]) -> str:
    """Records per CPU second of each client that calls a handler."""
    named = [row for row in found if row.topic in PARTS]
    panels = []
    for part in PARTS.values():
        bars = [
            svg.Bar(
                row.title,
                1 / row.cpu_per_million,
                f"{number(1 / row.cpu_per_million)} M",
                "grete" if row.row.startswith("grete-") else "peer",
            )
            for row in named
            if row.topic == part.name
        ]
        bars.sort(key=lambda bar: -bar.value)
        if bars:
            panels.append(svg.Panel(f"{part.title}: millions per CPU second", bars))
    subtitle = f"Apache Kafka {facts['broker']['version']}, broker and client on one core each; longer is better"
    return svg.plot("Calls of handlers", subtitle, panels, _LABEL)


def data(facts: Mapping[str, Any], found: Measurement) -> dict[str, Any]:
    """Data for machines: single runs, medians, results of targets."""
    return {
        **facts,
        "rows": [asdict(row) for row in rows(found.runs).values()],
        "waiting": [asdict(row) for row in found.waiting],
        "wakeups": [asdict(row) for row in found.wakeups],
        "background": [asdict(row) for row in found.crowds],
        "idle": [asdict(row) for row in found.idle],
        "stuck": [asdict(row) for row in found.stuck],
        "transforms": [asdict(run) for run in found.transforms],
        "targets": [asdict(result) | {"outcome": result.word} for result in check_targets(found)],
        "runs": [asdict(run) for run in found.runs],
        "failures": found.failures,
    }
