"""Metrics of /metrics, observed through a meter."""

from collections.abc import Iterable, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from grete.instrumentation.metrics import Histogram, MetricFamily, dotted

# By the end of the name. Other metrics have no unit: Prometheus exporters would append "_ratio" for a "1".
_UNITS = {"seconds": "s", "bytes": "By", "records": "{record}", "jobs": "{job}"}


class Gauges:
    """Observable instruments with the latest values, created as the families appear, so that no list is needed here.

    `grete_lag_seconds` is `grete.lag.seconds` in `s`, `grete_jobs_total` is `grete.jobs`. An exporter to Prometheus
    turns them into the same names again. Histograms are left out, because `messaging.process.duration` is one already.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._latest: dict[str, MetricFamily] = {}
        self._created: set[str] = set()

    def update(self, families: Iterable[MetricFamily]) -> None:
        """Sets the latest values, from the thread that emits. Other threads see either all old or all new values."""
        by_name = {family.name: family for family in families if family.kind != "histogram"}
        self._latest = by_name
        for name in by_name.keys() - self._created:
            self._created.add(name)
            self._create_instrument(by_name[name])

    def drop_gauges(self) -> None:
        """Stops reporting gauges; the last values of counters stay valid."""
        self._latest = {name: family for name, family in self._latest.items() if family.kind == "counter"}

    def _create_instrument(self, family: MetricFamily) -> None:
        def observe(_options: CallbackOptions) -> Sequence[Observation]:
            latest = self._latest.get(family.name)
            samples = latest.samples if latest is not None else ()
            # Labels are those of /metrics, so that the same queries work for both.
            return [Observation(value, labels) for labels, value in samples if not isinstance(value, Histogram)]

        unit = _UNITS.get(family.name.removesuffix("_total").rpartition("_")[2], "")
        create = (
            self._meter.create_observable_counter if family.kind == "counter" else self._meter.create_observable_gauge
        )
        create(f"grete.{dotted(family.name)}", [observe], unit, family.help)
