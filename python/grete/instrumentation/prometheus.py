"""Collector that adds Grete's metrics to a registry of prometheus_client."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from grete.errors import GreteError
from grete.instrumentation.metrics import Histogram, MetricFamily

try:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector as _Collector
except ImportError as error:
    raise ImportError(
        'grete.instrumentation.prometheus needs prometheus_client: pip install "grete[prometheus]"'
    ) from error

if TYPE_CHECKING:
    from grete.app import App

__all__ = ["Collector"]


class Collector(_Collector):
    """Collects the metrics that `/metrics` shows for an App.

        prometheus_client.REGISTRY.register(Collector(app))

    Collects nothing while the App does not run. In a swarm each process knows only its own metrics; there, let
    Prometheus scrape the supervisor's `/metrics`.
    """

    def __init__(self, app: "App") -> None:
        self._app = app

    def collect(self) -> Iterable[Metric]:
        """Returns the metrics. Called at each scrape."""
        try:
            families = self._app.families()
        except GreteError:  # the App does not run
            return ()
        return [_metric(family) for family in families]

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: the metrics are not known before the App runs."""
        return ()


def _metric(family: MetricFamily) -> Metric:
    metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
    for sample in family.samples:
        labels, value = dict(sample.labels), sample.value
        if isinstance(value, Histogram):
            for bound, count in value.buckets:
                metric.add_sample(f"{family.name}_bucket", labels | {"le": _format_bound(bound)}, count)
            metric.add_sample(f"{family.name}_count", labels, value.count)
            metric.add_sample(f"{family.name}_sum", labels, value.sum)
        else:
            metric.add_sample(family.name, labels, value)
    return metric


def _format_bound(bound: float) -> str:
    """Formats a bound as in Grete's own `/metrics`, so that both have the same series."""
    return "+Inf" if math.isinf(bound) else str(int(bound)) if bound.is_integer() else repr(bound)
