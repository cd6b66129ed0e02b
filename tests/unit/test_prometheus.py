"""Grete's metrics in a registry of prometheus_client, read by its own parser."""

import math
import subprocess
import sys
from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

import grete
from grete.instrumentation.metrics import Histogram, Sample, from_native
from grete.instrumentation.prometheus import Collector
from tests.kafka import eventually
from tests.unit.test_stop import make

pytestmark = pytest.mark.usefixtures("empty_directory")


Read = dict[tuple[str, str], dict[tuple[str, frozenset[tuple[str, str]]], float]]


def read(text: str) -> Read:
    """(Metric, kind): sample and its labels: value."""
    return {
        (metric.name, metric.type): {
            (sample.name, frozenset(sample.labels.items())): sample.value for sample in metric.samples
        }
        for metric in text_string_to_metric_families(text)
    }


def collected(app: Any) -> Read:
    registry = prometheus_client.CollectorRegistry(auto_describe=True)
    registry.register(Collector(app))
    return read(prometheus_client.generate_latest(registry).decode())


class FakeApp:
    """Returns the metrics that it is given."""

    def __init__(self, *native: Any) -> None:
        self.native = native

    def families(self) -> Any:
        return from_native(self.native)


def test_each_kind_is_exported_as_prometheus_has_it() -> None:
    odd = 'Or"ders\\\n'
    buckets = ((0.001, 0), (0.5, 3), (60.0, 4), (math.inf, 5))
    app = FakeApp(
        ("grete_jobs_total", "counter", "Jobs.", [({"handler": odd}, 3), ({"handler": "b"}, 1 << 60)]),
        ("grete_lag_seconds", "gauge", "Lag.", [({"topic": "orders", "partition": "3"}, 0.25)]),
        ("grete_handler_duration_seconds", "histogram", "Time.", [({"handler": odd}, (buckets, 7.5, 5))]),
        ("grete_retries_total", "counter", "Nothing yet.", []),
    )
    families = collected(app)
    handler = ("handler", odd)
    assert families == {
        ("grete_jobs", "counter"): {
            ("grete_jobs_total", frozenset({handler})): 3,
            ("grete_jobs_total", frozenset({("handler", "b")})): float(1 << 60),
        },
        ("grete_lag_seconds", "gauge"): {
            ("grete_lag_seconds", frozenset({("topic", "orders"), ("partition", "3")})): 0.25
        },
        ("grete_handler_duration_seconds", "histogram"): {
            **{
                ("grete_handler_duration_seconds_bucket", frozenset({handler, ("le", le)})): count
                for le, count in {"0.001": 0, "0.5": 3, "60": 4, "+Inf": 5}.items()
            },
            ("grete_handler_duration_seconds_count", frozenset({handler})): 5,
            ("grete_handler_duration_seconds_sum", frozenset({handler})): 7.5,
        },
        ("grete_retries", "counter"): {},
    }


def test_it_exports_what_the_native_text_exports() -> None:
    app = make(workers=3)
    assert collected(app) == {}, "it does not run"
    with app.running():
        # What comes with the first reading is there in both.
        eventually(lambda: shape(collected(app)) == shape(read(app.metrics())), 30.0, "the same metrics and labels")
        families = collected(app)
    workers = {("grete_workers", frozenset[tuple[str, str]]()): 3.0}
    assert families["grete_workers", "gauge"] == workers
    assert len(families) > 10
    assert collected(app) == {}, "it runs no more"


def shape(families: Read) -> dict[tuple[str, str], set[tuple[str, frozenset[tuple[str, str]]]]]:
    """Without values, which change."""
    return {metric: set(samples) for metric, samples in families.items()}


def test_it_may_be_registered_once() -> None:
    registry = prometheus_client.CollectorRegistry(auto_describe=True)
    registry.register(Collector(make()))
    assert prometheus_client.generate_latest(registry) == b""


def test_what_is_not_installed_is_named() -> None:
    script = "import sys; sys.modules['prometheus_client.core'] = None; import grete.instrumentation.prometheus"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "grete[prometheus]"' in done.stderr


def test_families_are_what_the_text_is_made_of() -> None:
    app = make(workers=3)
    with pytest.raises(grete.GreteError, match='"stop" does not run'):
        app.families()
    with app.running():
        by_name = {family.name: family for family in app.families()}
    assert by_name["grete_workers"].samples == (Sample({}, 3),)
    assert by_name["grete_workers"].kind == "gauge"
    (histogram,) = from_native([("a", "histogram", "", [({}, (((1.0, 2), (math.inf, 3)), 4.0, 3))])])
    assert histogram.samples == (Sample({}, Histogram(((1.0, 2), (math.inf, 3)), 4.0, 3)),)
    assert histogram.total() is None
    (lag,) = from_native([("a", "gauge", "", [({"p": "0"}, 1), ({"p": "1"}, 2.5)])])
    assert lag.total() == 3.5
    assert from_native([("a", "gauge", "", [])])[0].total() is None
