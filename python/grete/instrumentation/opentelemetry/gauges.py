"""What /metrics tells, observed through a meter."""

from collections.abc import Iterable, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from grete.instrumentation.metrics import Family, Histogram, dotted

# By the name's end. Others have none: exporters to Prometheus would write "_ratio" behind a "1".
_UNITS = {"seconds": "s", "bytes": "By", "records": "{record}", "jobs": "{job}"}


class Gauges:
    """Instruments that tell what was taken last. Made as the families come: nobody has to list them here.

    `grete_lag_seconds` is `grete.lag.seconds` in `s`, `grete_jobs_total` is `grete.jobs`: an exporter to Prometheus
    makes the same names of them again. Histograms are left out: `messaging.process.duration` is one already.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._latest: dict[str, Family] = {}
        self._made: set[str] = set()

    def take(self, families: Iterable[Family]) -> None:
        """From the thread that emits; exporters ask from theirs. What is observed is all of one time, or of another."""
        told = {family.name: family for family in families if family.kind != "histogram"}
        self._latest = told
        for name in told.keys() - self._made:
            self._made.add(name)
            self._make(told[name])

    def keep_counters(self) -> None:
        """Gauges tell nothing any more; the last word of counters stays true."""
        self._latest = {name: family for name, family in self._latest.items() if family.kind == "counter"}

    def _make(self, family: Family) -> None:
        def observe(_options: CallbackOptions) -> Sequence[Observation]:
            latest = self._latest.get(family.name)
            samples = latest.samples if latest is not None else ()
            # Labels are those of /metrics, so that the same questions may be asked of both.
            return [Observation(value, labels) for labels, value in samples if not isinstance(value, Histogram)]

        unit = _UNITS.get(family.name.removesuffix("_total").rpartition("_")[2], "")
        make = (
            self._meter.create_observable_counter if family.kind == "counter" else self._meter.create_observable_gauge
        )
        make(f"grete.{dotted(family.name)}", [observe], unit, family.help)
