"""Grete's metrics in a registry of prometheus_client that there is anyway."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from grete.errors import GreteError
from grete.instrumentation.metrics import Family, Histogram

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
    """What `/metrics` tells of an App, beside the other metrics of its process.

        prometheus_client.REGISTRY.register(Collector(app))

    While the App does not run, there is nothing of it. In a swarm each process knows of itself only: there the
    supervisor's own `/metrics` is what a Prometheus wants.
    """

    def __init__(self, app: "App") -> None:
        self._app = app

    def collect(self) -> Iterable[Metric]:
        """Called at each scrape."""
        try:
            families = self._app.families()
        except GreteError:  # it does not run
            return ()
        return [_metric(family) for family in families]

    def describe(self) -> Iterable[Metric]:
        """Which there will be is not known before it runs."""
        return ()


def _metric(family: Family) -> Metric:
    metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
    for sample in family.samples:
        labels, value = dict(sample.labels), sample.value
        if isinstance(value, Histogram):
            for bound, count in value.buckets:
                metric.add_sample(f"{family.name}_bucket", labels | {"le": _le(bound)}, count)
            metric.add_sample(f"{family.name}_count", labels, value.count)
            metric.add_sample(f"{family.name}_sum", labels, value.sum)
        else:
            metric.add_sample(family.name, labels, value)
    return metric


def _le(bound: float) -> str:
    """As Grete's own `/metrics` has it: whoever goes over from one to the other has the same series."""
    return "+Inf" if math.isinf(bound) else str(int(bound)) if bound.is_integer() else repr(bound)
