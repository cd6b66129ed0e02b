"""The metrics of /metrics as objects, for listeners and collectors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from grete import _native

# First words of metric names that become a component of their own in dotted names.
_NAMESPACES = frozenset({"handler", "lag", "process", "producer", "swarm"})

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of observed values, by range."""

    buckets: tuple[tuple[float, int], ...]
    """(Upper bound, number of values up to that bound), with growing bounds; the last one is infinite."""
    sum: float
    count: int


class Sample(NamedTuple):
    """One sample of a family."""

    labels: Mapping[str, str]
    value: float | Histogram
    """A `Histogram` in families of that kind, else a number."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric with all its samples. docs/metrics.md lists all metrics."""

    name: str
    """Name with its unit, like "grete_lag_seconds"; the name of a counter ends with "_total"."""
    kind: Kind
    help: str
    samples: tuple[Sample, ...]

    def total(self) -> float | None:
        """Returns the sum of its samples; None without samples, and for a histogram."""
        values = [sample.value for sample in self.samples if not isinstance(sample.value, Histogram)]
        return sum(values) if values else None


def dotted(name: str) -> str:
    """Converts a name to dotted style: "grete_lag_seconds" to "lag.seconds", "grete_jobs_total" to "jobs"."""
    plain = name.removeprefix("grete_").removesuffix("_total")
    first, _, rest = plain.partition("_")
    return f"{first}.{rest}" if first in _NAMESPACES and rest else plain


def from_native(native: "Iterable[_native._Family]") -> tuple[MetricFamily, ...]:
    """Converts the families of the native module: see `_native.Health.families`."""
    return tuple(
        MetricFamily(
            name,
            kind,  # type: ignore[arg-type]  # text there
            help,
            tuple(
                Sample(labels, Histogram(*value) if isinstance(value, tuple) else value) for labels, value in samples
            ),
        )
        for name, kind, help, samples in native  # noqa: A001
    )
