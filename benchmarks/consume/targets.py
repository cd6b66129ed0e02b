"""Targets of Grete relative to the other clients, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .rows import Row

COLUMNS = "grete-columns"
ROWS = "grete-rows"
DEFAULTS = "grete-columns-defaults"
CONFLUENT = "confluent"


@dataclass(frozen=True)
class Target:
    """`subject` must reach `factor` times what `peer` does on `topic`."""

    topic: str
    per: str  # "CPU second" or "second"
    subject: str
    peer: str
    factor: float

    def measured(self, rows: Mapping[tuple[str, str], Row]) -> float | None:
        """The ratio, if both were measured."""
        subject, peer = rows.get((self.topic, self.subject)), rows.get((self.topic, self.peer))
        if subject is None or peer is None:
            return None
        if self.per == "second":
            return subject.per_second / peer.per_second
        return subject.per_cpu_second / peer.per_cpu_second


TARGETS = (
    Target("T23", "CPU second", COLUMNS, CONFLUENT, 15),
    Target("T23", "CPU second", COLUMNS, "librdkafka", 4),
    Target("T23", "CPU second", COLUMNS, "floor-crcparse", 0.5),
    Target("T100", "CPU second", COLUMNS, CONFLUENT, 10),
    Target("T100", "CPU second", COLUMNS, "librdkafka", 3),
    Target("T100", "CPU second", COLUMNS, "franz", 3),
    Target("T100", "CPU second", COLUMNS, "java/warm", 3),
    Target("T100lz4", "CPU second", COLUMNS, CONFLUENT, 5),
    Target("T100lz4", "CPU second", COLUMNS, "librdkafka", 2),
    Target("T100zstd", "CPU second", COLUMNS, CONFLUENT, 5),
    Target("T100zstd", "CPU second", COLUMNS, "librdkafka", 2),
    Target("T23", "second", COLUMNS, CONFLUENT, 10),
    Target("T100", "second", COLUMNS, CONFLUENT, 4),
    Target("T23", "CPU second", ROWS, CONFLUENT, 4),
    Target("T100", "CPU second", ROWS, CONFLUENT, 4),
    Target("T23", "second", ROWS, CONFLUENT, 4),
    Target("T100", "second", ROWS, CONFLUENT, 4),
    Target("T23", "CPU second", DEFAULTS, COLUMNS, 0.8),
    Target("T100", "CPU second", DEFAULTS, COLUMNS, 0.8),
    Target("T23", "second", DEFAULTS, COLUMNS, 0.8),
    Target("T100", "second", DEFAULTS, COLUMNS, 0.8),
)

TLS_TARGETS = tuple(
    Target(topic, "CPU second", COLUMNS, peer, 3)
    for topic in ("T23", "T100", "T100lz4")
    for peer in (CONFLUENT, "java/warm")
)


@dataclass(frozen=True)
class TargetResult:
    """One line of the list that every run prints."""

    text: str
    factor: float
    measured: float | None

    @property
    def missed(self) -> bool:
        return self.measured is not None and self.measured < self.factor

    @property
    def word(self) -> str:
        return "not measured" if self.measured is None else "MISSED" if self.missed else "ok"


def check_targets(rows: Mapping[tuple[str, str], Row], tls: bool = False) -> list[TargetResult]:
    """Every target whose topic was read. `tls`: the rows were measured over TLS."""
    topics = {topic for topic, _ in rows}
    return [
        TargetResult(
            f"{target.topic}, records per {target.per}: {target.subject} vs {target.peer}",
            target.factor,
            target.measured(rows),
        )
        for target in (TLS_TARGETS if tls else TARGETS)
        if target.topic in topics
    ]
