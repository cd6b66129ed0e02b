"""The tables, the list of targets and the plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.common import results, svg
from benchmarks.common.table import number, table
from benchmarks.common.target_results import TargetResult, target_table

from .catalogue import SHAPES, SYNC, THROUGHPUT, VALUE_BYTES, Client, Shape
from .driver import Measurement
from .rows import SyncRow, ThroughputRow, sync_rows, throughput_rows
from .targets import judge_sync, judge_throughput, judge_waiting

SYNC_HEAD = (
    "client",
    "p50 us",
    "p99 us",
    "max us",
    "x floor",
    "CPU us per produce",
    "switches, caller",
    "switches, process",
    "answer to caller p50 us",
    "p99 us",
)
THROUGHPUT_HEAD = (
    "client",
    "k records/s (min..max)",
    "CPU s per 1M",
    "x confluent per CPU s",
    "core used",
    "peak RSS MB",
)
WAITING_HEAD = ("client", "context switches", "CPU ms", "threads")


def check_targets(measured: Measurement) -> list[TargetResult]:
    """The targets of the parts that were run."""
    target_results: list[TargetResult] = []
    if measured.sync:
        target_results += judge_sync(sync_rows(measured.sync))
    found = throughput_rows(measured.throughput)
    for shape in SHAPES:
        if any(row.shape == shape for row in found.values()):
            target_results += judge_throughput(shape, found)
    if measured.waited:
        target_results += judge_waiting({waited.client: waited for waited in measured.waited})
    return target_results


def sync_table(found: Mapping[str, SyncRow]) -> str:
    """One line per client."""
    floor = found.get("floor")
    lines = [
        (
            row.title,
            number(row.p50_us),
            number(row.p99_us),
            number(row.max_us),
            number(row.p50_us / floor.p50_us) if floor else "",
            number(row.cpu_us),
            _per_send(row.caller_switches),
            _per_send(row.process_switches),
            "" if row.handover_p50_us is None else number(row.handover_p50_us),
            "" if row.handover_p99_us is None else number(row.handover_p99_us),
        )
        for row in found.values()
    ]
    return table(SYNC_HEAD, lines)


def _per_send(switches: float | None) -> str:
    return "" if switches is None else f"{switches:.2f}"


def throughput_table(shape: str, found: Mapping[tuple[str, str], ThroughputRow]) -> str:
    """One line per client."""
    peer = found.get((shape, "confluent"))
    lines = [
        (
            row.title,
            f"{row.per_second / 1e3:,.0f} ({row.slowest / 1e3:,.0f}..{row.fastest / 1e3:,.0f})",
            f"{row.cpu_per_million:.4f}",
            number(row.per_cpu_second / peer.per_cpu_second) if peer else "",
            f"{row.utilisation:.0%}",
            f"{row.peak_rss / 1e6:,.0f}",
        )
        for (of, _), row in found.items()
        if of == shape
    ]
    return table(THROUGHPUT_HEAD, lines)


def settings_list(clients: Iterable[Client], versions: Mapping[str, str]) -> str:
    """Every client's version and settings."""
    lines = []
    for client in clients:
        if client.name in versions:
            pairs = [f"{name}={value}" for name, value in client.settings.items() if name != "mode"]
            parts = [
                versions[client.name],
                ", ".join(pairs) or "nothing tuned",
                *([client.note] if client.note else []),
            ]
            lines.append(f"- **{' / '.join(client.rows.values())}**: {'; '.join(parts)}")
    return "\n".join(lines)


def markdown(facts: Mapping[str, Any], measured: Measurement, rounds: int, records: int) -> str:
    """The whole page."""
    parts = [
        "# Produce over TLS" if facts.get("tls") else "# Produce",
        results.paragraph(facts),
        (
            f"Client on core {facts['cores']['client']}, medians of {rounds} interleaved rounds; values of "
            f"{VALUE_BYTES} bytes, no keys, acks=all, idempotent, not compressed. After each run the partitions hold "
            "exactly the records that were sent."
        ),
    ]
    sync, found = sync_rows(measured.sync), throughput_rows(measured.throughput)
    if sync:
        parts += [f"## One record after the other, {_most(sync.values()):,} times into one partition", sync_table(sync)]
        parts.append(
            "Switches are voluntary context switches per record. `answer to caller`: from the moment when the answer "
            "was read from the socket to the one when the caller runs Python again."
        )
    for shape in SHAPES.values():
        if any(row.shape == shape.name for row in found.values()):
            parts += [_heading(shape, records), throughput_table(shape.name, found)]
    if measured.waited:
        seconds = f"{measured.waited[0].seconds:g}"
        parts += [f"## {seconds} seconds of waiting for a broker that hangs", _waiting_table(measured)]
    parts += ["## Targets", target_table(check_targets(measured)), "## Versions and settings"]
    parts.append(settings_list(SYNC.values(), {row.row: row.version for row in sync.values()}))
    versions = {row.row.partition("/")[0]: row.version for row in found.values()}
    parts.append(settings_list(THROUGHPUT.values(), versions))
    if measured.failures:
        parts += ["## Failed", *(f"```\n{failure}\n```" for failure in measured.failures)]
    return "\n\n".join(part for part in parts if part)


def _most(rows: Iterable[SyncRow]) -> int:
    return max((row.records for row in rows), default=0)


def _heading(shape: Shape, records: int) -> str:
    return f"## As fast as it goes: {records:,} records {shape.text}"


def _waiting_table(measured: Measurement) -> str:
    lines = [
        (waited.title, str(waited.switches), number(waited.cpu_ms), str(waited.threads)) for waited in measured.waited
    ]
    return table(WAITING_HEAD, lines)


def plot(facts: Mapping[str, Any], measured: Measurement) -> str:
    """Microseconds of a sync send, and millions of records per CPU second."""
    panels = []
    sync = [row for row in sync_rows(measured.sync).values() if row.row != "grete-sleep"]
    if sync:
        bars = [
            svg.Bar(row.title, row.p50_us, f"{number(row.p50_us)} us", _kind(row.row))
            for row in sorted(sync, key=lambda row: row.p50_us)
        ]
        panels.append(svg.Panel("One record after the other, p50: shorter is better", bars))
    found = throughput_rows(measured.throughput)
    for shape in SHAPES.values():
        rows = sorted((row for row in found.values() if row.shape == shape.name), key=lambda row: -row.per_cpu_second)
        if rows:
            bars = [
                svg.Bar(row.title, row.per_cpu_second, f"{number(row.per_cpu_second / 1e6)} M", _kind(row.row))
                for row in rows
            ]
            panels.append(svg.Panel(f"Records per CPU second, {shape.text}: longer is better", bars))
    subtitle = f"Apache Kafka {facts['broker']['version']}, broker and client on one core each; acks=all, idempotent"
    return svg.plot("Produce over TLS" if facts.get("tls") else "Produce", subtitle, panels)


def _kind(row: str) -> str:
    return next((kind for kind in ("grete", "floor") if row.startswith(kind)), "peer")


def data(facts: Mapping[str, Any], measured: Measurement) -> dict[str, Any]:
    """Data for machines: single runs, medians, results of targets."""
    return {
        **facts,
        "sync": [asdict(row) for row in sync_rows(measured.sync).values()],
        "throughput": [asdict(row) for row in throughput_rows(measured.throughput).values()],
        "waited": [asdict(waited) for waited in measured.waited],
        "targets": [asdict(result) | {"outcome": result.word} for result in check_targets(measured)],
        "sync_runs": [asdict(run) for run in measured.sync],
        "throughput_runs": [asdict(run) for run in measured.throughput],
        "failures": measured.failures,
    }
