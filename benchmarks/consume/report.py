"""The table, the list of targets and the plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.common import results, svg
from benchmarks.common.table import number, table

from .catalogue import CLIENTS, Client
from .driver import Measurement
from .rows import Row, rows
from .targets import COLUMNS, TargetResult, check_targets
from .topics import PRODUCER, Filled

HEAD = (
    "client",
    "k records/s (min..max)",
    "CPU s per 1M",
    "x floor",
    "Grete columns / this",
    "core used",
    "peak RSS MB",
)

# The bars of loops that do not read records would dwarf all that do.
NOT_PLOTTED = ("floor-read", "floor-crc", "confluent-defaults", "grete-columns-defaults")


def floor_of(filled: Filled, found: Mapping[tuple[str, str], Row]) -> Row | None:
    """Row that `x floor` compares with: the loop that parses, or (compressed) the loop that checks CRCs."""
    name = "floor-crc" if filled.topic.compressed else "floor-crcparse"
    return found.get((filled.topic.name, name))


def topic_table(filled: Filled, found: Mapping[tuple[str, str], Row]) -> str:
    """One topic, one line per client."""
    floor, grete = floor_of(filled, found), found.get((filled.topic.name, COLUMNS))
    lines = []
    for (topic, _), row in found.items():
        if topic != filled.topic.name:
            continue
        rates = f"{row.per_second / 1e3:,.0f} ({row.slowest / 1e3:,.0f}..{row.fastest / 1e3:,.0f})"
        lines.append(
            (
                row.title,
                rates,
                f"{row.cpu_per_million:.4f}",
                number(row.cpu_per_million / floor.cpu_per_million) if floor else "",
                number(row.cpu_per_million / grete.cpu_per_million) if grete else "",
                f"{row.utilisation:.0%}",
                f"{row.peak_rss / 1e6:,.0f}",
            )
        )
    return table(HEAD, lines)


def target_table(target_results: Sequence[TargetResult]) -> str:
    """Targets and what became of them."""
    lines = [
        (
            result.text,
            f">= {result.factor:g}",
            "" if result.measured is None else f"{result.measured:.2f}",
            result.word,
        )
        for result in target_results
    ]
    return table(("target (ratio)", "wanted", "measured", "result"), lines)


def settings_list(clients: Sequence[Client], found: Mapping[tuple[str, str], Row]) -> str:
    """Every client's version and settings."""
    versions = {row.row.partition("/")[0]: row.version for row in found.values()}
    lines = []
    for client in clients:
        if client.name in versions:
            settings = ", ".join(f"{name}={value}" for name, value in client.settings.items()) or "nothing tuned"
            title = " / ".join(client.rows.values())
            parts = [versions[client.name], settings, *([client.note] if client.note else [])]
            lines.append(f"- **{title}**: {'; '.join(parts)}")
    return "\n".join(lines)


def markdown(facts: Mapping[str, Any], measured: Measurement, rounds: int) -> str:
    """The whole page."""
    found = rows(measured.runs)
    parts = [
        "# Consume over TLS" if facts.get("tls") else "# Consume",
        results.paragraph(facts),
        (
            f"Client on core {facts['cores']['client']}, medians of {rounds} interleaved rounds. Producer: {PRODUCER}. "
            "`Grete columns / this`: records per CPU second of Grete's columns over this row's."
        ),
    ]
    for filled in measured.topics:
        topic = filled.topic
        codec = f", {topic.codec}" if topic.compressed else ""
        plural = "s" if topic.partitions > 1 else ""
        parts.append(
            f"## {topic.name}: {filled.records:,} records, {topic.text}, {topic.partitions} partition{plural}{codec}"
        )
        parts.append(topic_table(filled, found))
    parts += ["## Targets", target_table(check_targets(found, facts.get("tls", False)))]
    parts += ["## Versions and settings", settings_list(list(CLIENTS.values()), found)]
    if measured.failures:
        parts += ["## Failed", *(f"```\n{failure}\n```" for failure in measured.failures)]
    return "\n\n".join(parts)


def plot(facts: Mapping[str, Any], measured: Measurement) -> str:
    """Millions of records per CPU second."""
    found = rows(measured.runs)
    panels = []
    for filled in measured.topics:
        bars = [
            svg.Bar(row.title, row.per_cpu_second, f"{number(row.per_cpu_second / 1e6)} M", _kind(row))
            for (topic, _), row in found.items()
            if topic == filled.topic.name and row.row not in NOT_PLOTTED
        ]
        bars.sort(key=lambda bar: -bar.value)
        panels.append(svg.Panel(f"{filled.topic.name}: {filled.topic.text}", bars))
    subtitle = f"Apache Kafka {facts['broker']['version']}, broker and client on one core each; longer is better"
    return svg.plot("Records per second of CPU", subtitle, panels)


def _kind(row: Row) -> str:
    return row.row.partition("-")[0] if row.row.startswith(("grete-", "floor-")) else "peer"


def data(facts: Mapping[str, Any], measured: Measurement) -> dict[str, Any]:
    """Data for machines: single runs, medians, results of targets."""
    found = rows(measured.runs)
    return {
        **facts,
        "topics": [asdict(filled) for filled in measured.topics],
        "rows": [asdict(row) for row in found.values()],
        "targets": [asdict(result) | {"outcome": result.word} for result in check_targets(found)],
        "runs": [asdict(run) for run in measured.runs],
        "failures": measured.failures,
    }
