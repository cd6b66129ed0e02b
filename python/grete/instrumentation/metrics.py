"""The figures of /metrics as objects, for listeners and collectors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from grete import _core

# First words of metrics that are names of their own.
_SPACES = frozenset({"handler", "lag", "process", "producer", "swarm"})

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """What was counted, by range."""

    buckets: tuple[tuple[float, int], ...]
    """(Upper bound, how many were at most that), the bounds growing, the last one infinite."""
    sum: float
    count: int


class Sample(NamedTuple):
    """One number of a family."""

    labels: Mapping[str, str]
    value: float | Histogram
    """A `Histogram` in families of that kind."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its samples: docs/metrics.md tells which there are."""

    name: str
    """With its unit, like "grete_lag_seconds"; that of a counter ends with "_total"."""
    kind: Kind
    help: str
    samples: tuple[Sample, ...]

    def total(self) -> float | None:
        """The sum of its numbers; None without any, and for a histogram."""
        values = [sample.value for sample in self.samples if not isinstance(sample.value, Histogram)]
        return sum(values) if values else None


def dotted(name: str) -> str:
    """As those write it whose names have dots: "grete_lag_seconds" is "lag.seconds", "grete_jobs_total" is "jobs"."""
    plain = name.removeprefix("grete_").removesuffix("_total")
    first, _, rest = plain.partition("_")
    return f"{first}.{rest}" if first in _SPACES and rest else plain


def families(native: "Iterable[_core._Family]") -> tuple[Family, ...]:
    """Of what the native module tells: see `_core.Health.families`."""
    return tuple(
        Family(
            name,
            kind,  # type: ignore[arg-type]  # text there
            help,
            tuple(
                Sample(labels, Histogram(*value) if isinstance(value, tuple) else value) for labels, value in samples
            ),
        )
        for name, kind, help, samples in native  # noqa: A001
    )
