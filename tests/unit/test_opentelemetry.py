"""Jobs as OpenTelemetry's own SDK gets them."""

import asyncio
import contextvars
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import baggage, propagate, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import REGISTRY, generate_latest

import grete
from grete import _native
from grete.instrumentation import Monitor, opentelemetry
from grete.instrumentation.metrics import Histogram, MetricFamily, Sample
from tests.unit.fake_jobs import FakeJob
from tests.unit.record_batches import Record, batch
from tests.unit.test_hook_runner import Rig

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
Headers = list[tuple[str, bytes | None]]


def sender(span_id: int, trace_id: str = TRACE) -> Headers:
    return [("traceparent", f"00-{trace_id}-{span_id:016x}-01".encode())]


def job_of(*headers: Headers, value: bytes | None = b"x", **place: Any) -> FakeJob:
    """A job with a record for each of these headers, at offset 5 and so on."""
    records = [Record(5 + at, value, headers=of_one) for at, of_one in enumerate(headers)]
    return FakeJob(messages=_native._testing_decode(batch(records), "orders", 3), **place)


class Telemetry:
    """An SDK with a listener on it, and what it has come to."""

    def __init__(self, monitor: Monitor) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        self.tracer = self.tracers.get_tracer("test")
        self.listener = opentelemetry.OpenTelemetry(self.tracers, self.meters)
        monitor.subscribe(self.listener)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def jobs(self) -> list[ReadableSpan]:
        return [span for span in self.spans if span.kind is SpanKind.CONSUMER]

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        (resource,) = data.resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}

    def points(self, name: str) -> list[Any]:
        found = self.metrics().get(name)
        return [] if found is None else list(found.data.data_points)

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


@pytest.fixture
def monitor() -> Monitor:
    return Monitor()


@pytest.fixture
def telemetry(monitor: Monitor) -> Iterator[Telemetry]:
    telemetry = Telemetry(monitor)
    yield telemetry
    telemetry.close()


def run(handler: Any, monitor: Monitor, *jobs: FakeJob, **settings: Any) -> None:
    Rig(handler, monitor=monitor, **settings).run(*jobs)


def nothing(messages: grete.Messages) -> None:
    pass


def place_of(span: ReadableSpan) -> trace.SpanContext:
    place = span.get_span_context()
    assert place is not None
    return place


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


PLACE = {
    "messaging.system": "kafka", "messaging.operation.name": "process", "messaging.destination.name": "orders",
    "messaging.consumer.group.name": "billing",
}  # fmt: skip


def test_a_batch_has_a_span_by_the_conventions(monitor: Monitor, telemetry: Telemetry) -> None:
    run(nothing, monitor, job_of([], [], attempt=2))
    (span,) = telemetry.spans
    assert (span.name, span.kind, span.parent) == ("process orders", SpanKind.CONSUMER, None)
    assert span.status.status_code is StatusCode.UNSET
    assert said(span) == PLACE | {
        "messaging.operation.type": "process", "messaging.destination.partition.id": "3",
        "messaging.batch.message_count": 2, "grete.handler": "nothing", "grete.attempt": 2, "grete.first_offset": 5,
        "grete.last_offset": 6,
    }  # fmt: skip
    assert span.instrumentation_scope is not None
    assert (span.instrumentation_scope.name, span.instrumentation_scope.version) == ("grete", grete.__version__)
    assert not span.events
    assert not span.links


def test_a_single_record_has_its_offset_in_the_span(monitor: Monitor, telemetry: Telemetry) -> None:
    run(nothing, monitor, job_of([]), job_of([], value=None))
    first, tombstone = telemetry.spans
    assert said(first)["messaging.kafka.offset"] == 5
    assert "messaging.batch.message_count" not in said(first)
    assert "messaging.kafka.message.tombstone" not in said(first)
    assert said(tombstone)["messaging.kafka.message.tombstone"] is True


def test_the_sender_of_the_only_record_is_the_parent(monitor: Monitor, telemetry: Telemetry) -> None:
    heard: list[object] = []
    run(
        lambda messages: heard.append(baggage.get_baggage("tenant")),
        monitor,
        job_of([*sender(7), ("Baggage", b"tenant=a")]),
    )
    (span,) = telemetry.spans
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", span.parent.span_id, span.parent.is_remote) == (TRACE, 7, True)
    assert not span.links
    assert heard == ["a"]
    assert baggage.get_baggage("tenant") is None


def test_each_sender_of_a_batch_is_linked_once(monitor: Monitor, telemetry: Telemetry) -> None:
    other = TRACE.replace("4", "5")
    headers: Headers = [("other", b"x"), ("TraceParent", sender(7, other)[0][1])]
    run(nothing, monitor, job_of(sender(7), [], sender(8), sender(7), headers, [("other", b"x")]))
    (span,) = telemetry.spans
    links = [(f"{link.context.trace_id:032x}", link.context.span_id) for link in span.links]
    assert links == [(TRACE, 7), (TRACE, 8), (other, 7)]
    assert span.parent is None


def test_links_are_bounded(monitor: Monitor, telemetry: Telemetry) -> None:
    run(nothing, monitor, job_of(*(sender(1 + at % 130) for at in range(300))))
    (span,) = telemetry.spans
    assert [link.context.span_id for link in span.links] == list(range(1, 129))


def test_the_last_of_two_headers_counts(monitor: Monitor, telemetry: Telemetry) -> None:
    run(nothing, monitor, job_of([*sender(7), *sender(8)]))
    (span,) = telemetry.spans
    assert span.parent is not None
    assert span.parent.span_id == 8


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", None)],
        [("traceparent", b"")],
        [("traceparent", b"\xff\xfe")],
        [("traceparent", f"00-{TRACE}-0000000000000000-01".encode())],
        [("traceparent", f"ff-{TRACE}-00f067aa0ba902b7-01".encode())],
        [("traceparent", b"x" * 100_000)],
        [("baggage", b"\0=;,%%%" * 99)],
    ],
)
def test_broken_headers_are_ignored(monitor: Monitor, telemetry: Telemetry, headers: Headers) -> None:
    run(nothing, monitor, job_of(headers), job_of(headers, sender(7)))
    alone, batched = telemetry.spans
    assert alone.parent is None
    assert [link.context.span_id for link in batched.links] == [7]


def test_a_propagator_that_raises_is_survived(
    monitor: Monitor, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_args: object, **_more: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(propagate, "extract", fails)
    run(nothing, monitor, job_of(sender(7)), job_of(sender(7), sender(8)))
    assert [(span.parent, list(span.links)) for span in telemetry.spans] == [(None, []), (None, [])]


def test_the_span_is_current_inside_of_the_handler(monitor: Monitor, telemetry: Telemetry) -> None:
    def insert(messages: grete.Messages) -> None:
        telemetry.tracer.start_span("db.insert").end()

    run(insert, monitor, job_of(sender(7)), job_of([], []))
    assert trace.get_current_span() is trace.INVALID_SPAN
    for child, job in zip(telemetry.spans[::2], telemetry.spans[1::2], strict=True):
        assert (child.name, job.name) == ("db.insert", "process orders")
        assert child.parent is not None
        assert child.parent.span_id == place_of(job).span_id
        assert place_of(child).trace_id == place_of(job).trace_id


def test_each_task_has_its_own_jobs_span(monitor: Monitor, telemetry: Telemetry) -> None:
    current: list[tuple[trace.Span, trace.Span]] = []

    async def insert(messages: grete.Messages) -> None:
        before = trace.get_current_span()
        await asyncio.sleep(0)
        with telemetry.tracer.start_as_current_span("db.insert"):
            await asyncio.sleep(0)
        await asyncio.to_thread(telemetry.tracer.start_span("in a thread").end)
        current.append((before, trace.get_current_span()))

    rig = Rig(insert, asynchronous=True, monitor=monitor)

    async def both() -> None:
        await asyncio.gather(*(rig.run_async(job_of(sender(at), partition=at, lane=at)) for at in (7, 8, 9)))
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(both())
    assert len({before for before, _ in current}) == 3
    assert all(before is after is not trace.INVALID_SPAN for before, after in current)
    jobs = {place_of(span).span_id: span for span in telemetry.jobs()}
    assert sorted(span.parent.span_id for span in jobs.values() if span.parent is not None) == [7, 8, 9]
    children = [span for span in telemetry.spans if span.kind is not SpanKind.CONSUMER]
    parents = [child.parent.span_id for child in children if child.parent is not None]
    assert sorted(parents) == sorted([*jobs, *jobs])


class OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("out of stock"), "ValueError", "out of stock"),
        (grete.GreteError("x"), "grete.errors.GreteError", "x"),
        (OddError(), f"{__name__}.OddError", None),
    ],
)
def test_a_job_that_fails_is_an_error(
    monitor: Monitor, telemetry: Telemetry, error: Exception, kind: str, text: str | None
) -> None:
    def fail(messages: grete.Messages) -> None:
        raise error

    with pytest.raises(type(error)):
        run(fail, monitor, job_of([]))
    assert trace.get_current_span() is trace.INVALID_SPAN
    (span,) = telemetry.spans
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, text)
    assert said(span)["error.type"] == kind
    if text is not None:
        (event,) = span.events
        assert event.name == "exception"
        assert (event.attributes or {})["exception.message"] == text
        assert "in fail" in str((event.attributes or {})["exception.stacktrace"])
    (point,) = telemetry.points("messaging.process.duration")
    assert dict(point.attributes) == PLACE | {"error.type": kind}


def test_a_job_that_asks_for_another_try_is_none(monitor: Monitor, telemetry: Telemetry) -> None:
    def ask(messages: grete.Messages) -> None:
        raise grete.RetryLater("90s")

    with pytest.raises(grete.RetryLater):
        run(ask, monitor, job_of([]))
    (span,) = telemetry.spans
    assert (span.status.status_code, said(span)["grete.retry_later"]) == (StatusCode.UNSET, 90.0)
    (point,) = telemetry.points("messaging.process.duration")
    assert dict(point.attributes) == PLACE


def test_a_task_that_is_cancelled_is_an_error_and_leaves_no_span_behind(monitor: Monitor, telemetry: Telemetry) -> None:
    async def hang(messages: grete.Messages) -> None:
        await asyncio.Event().wait()

    rig = Rig(hang, asynchronous=True, monitor=monitor)

    async def cancel() -> None:
        task = asyncio.create_task(rig.run_async(job_of([])))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    (span,) = telemetry.spans
    assert said(span)["error.type"] == "asyncio.exceptions.CancelledError"
    assert not telemetry.listener._open


def test_jobs_are_measured_by_the_conventions(monitor: Monitor, telemetry: Telemetry) -> None:
    run(nothing, monitor, job_of([], []), job_of([]))
    metrics = telemetry.metrics()
    duration, consumed = metrics["messaging.process.duration"], metrics["messaging.client.consumed.messages"]
    assert (duration.unit, consumed.unit) == ("s", "{message}")
    (point,) = duration.data.data_points
    assert (dict(point.attributes), point.count) == (PLACE, 2)
    assert point.explicit_bounds == (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
    assert sum(point.bucket_counts) == 2
    # The job's own time, not the listener's: spans say the same.
    assert 0 <= point.sum <= sum((span.end_time or 0) - (span.start_time or 0) for span in telemetry.spans) / 1e9
    (count,) = consumed.data.data_points
    assert (dict(count.attributes), count.value) == (PLACE, 3)
    assert consumed.data.is_monotonic


def families(lag: float) -> tuple[MetricFamily, ...]:
    lane = {"handler": "book", "topic": "orders", "partition": "3"}
    return (
        MetricFamily("grete_lag_seconds", "gauge", "How late.", (Sample(lane, lag),)),
        MetricFamily("grete_retries_total", "counter", "Tries.", (Sample({"handler": "book"}, 7),)),
        MetricFamily("grete_workers", "gauge", "Threads.", (Sample({}, 4),)),
        MetricFamily(
            "grete_handler_duration_seconds", "histogram", "Time.", (Sample(lane, Histogram(((1.0, 2),), 0.5, 2)),)
        ),
    )


def test_metrics_are_observed(monitor: Monitor, telemetry: Telemetry) -> None:
    assert not telemetry.metrics()
    monitor.instrument("statistics.emitted", {"statistics": {}, "metrics": families(1.0)})
    monitor.instrument("statistics.emitted", {"statistics": {}, "metrics": families(2.5)})
    metrics = telemetry.metrics()
    assert {name: metric.unit for name, metric in metrics.items()} == {
        "grete.lag.seconds": "s", "grete.retries": "", "grete.workers": "",
    }  # fmt: skip
    (lag,) = metrics["grete.lag.seconds"].data.data_points
    assert (dict(lag.attributes), lag.value) == ({"handler": "book", "topic": "orders", "partition": "3"}, 2.5)
    assert metrics["grete.lag.seconds"].description == "How late."
    (retries,) = metrics["grete.retries"].data.data_points
    assert (retries.value, metrics["grete.retries"].data.is_monotonic) == (7, True)
    monitor.instrument("statistics.emitted", {"statistics": {}, "metrics": families(2.5)[1:]})
    assert "grete.lag.seconds" not in telemetry.metrics(), "what is not known any more is not exported"
    monitor.instrument("app.stopped")
    (last,) = telemetry.points("grete.retries")
    assert (last.value, list(telemetry.metrics())) == (7, ["grete.retries"])


def test_an_exporter_to_prometheus_has_the_names_of_metrics(monitor: Monitor) -> None:
    reader = PrometheusMetricReader()
    meters = MeterProvider([reader])
    monitor.subscribe(opentelemetry.OpenTelemetry(meter_provider=meters))
    known = [entry for entry in _native.metric_descriptors() if entry[1] != "histogram"]
    families = [
        MetricFamily(name, kind, help_text, (Sample(dict.fromkeys(labels, "x"), 1),))  # type: ignore[arg-type]
        for name, kind, help_text, labels in known
    ]
    monitor.instrument("statistics.emitted", {"statistics": {}, "metrics": families})
    try:
        lines = generate_latest(REGISTRY).decode().splitlines()
    finally:
        meters.shutdown()
    exported = {tuple(line.split()[2:]) for line in lines if line.startswith("# TYPE grete_")}
    assert exported == {(name, kind) for name, kind, *_ in known}


def test_without_an_sdk_nothing_is_recorded_and_contexts_are_passed_on(monitor: Monitor) -> None:
    heard: list[trace.SpanContext] = []
    monitor.subscribe(opentelemetry.OpenTelemetry())
    run(lambda messages: heard.append(trace.get_current_span().get_span_context()), monitor, job_of(sender(7)))
    assert [place.span_id for place in heard] == [7]
    monitor.instrument("app.stopped")


def test_who_comes_or_goes_while_a_handler_runs_breaks_nothing(monitor: Monitor, telemetry: Telemetry) -> None:
    monitor.unsubscribe(telemetry.listener)
    changes: list[Callable[..., Any]] = [monitor.subscribe, monitor.unsubscribe]

    def change(messages: grete.Messages) -> None:
        if changes:
            changes.pop(0)(telemetry.listener)

    # A span without an end stays the current span of its thread.
    contextvars.copy_context().run(run, change, monitor, job_of([]), job_of([]))
    monitor.subscribe(telemetry.listener)
    run(change, monitor, job_of([]))
    assert len(telemetry.spans) == 1


@pytest.mark.parametrize("kind", [dict, list])
def test_headers_of_a_new_record_hold_the_current_span(telemetry: Telemetry, kind: type) -> None:
    old: Headers = [("TraceParent", b"old"), ("other", b"x")]
    headers: Any = kind(old)
    with telemetry.tracer.start_as_current_span("job") as span:
        opentelemetry.inject(headers)
    place = span.get_span_context()
    assert dict(headers) == {
        "other": b"x",
        "traceparent": f"00-{place.trace_id:032x}-{place.span_id:016x}-{place.trace_flags:02x}".encode(),
    }
    untouched: Any = kind(old)
    opentelemetry.inject(untouched)
    assert untouched == kind(old)


def test_without_the_api_the_cure_is_named() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import grete.instrumentation.opentelemetry"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "grete[opentelemetry]"' in done.stderr


SETUP = """
import os
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from grete.instrumentation import Monitor, opentelemetry
from tests.unit.test_opentelemetry import job_of, nothing, run

exporter, reader, calls = InMemorySpanExporter(), InMemoryMetricReader(), []

def setup():
    calls.append(os.getpid())
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))

monitor = Monitor()
monitor.subscribe(opentelemetry.OpenTelemetry(setup=setup))
assert not calls
for node in range(2):
    pid = os.fork()
    if pid == 0:
        run(nothing, monitor, job_of([]), job_of([]))
        monitor.instrument("app.stopped")
        trace.get_tracer_provider().force_flush()
        scopes = reader.get_metrics_data().resource_metrics[0].scope_metrics  # the SDK may add metrics of its own
        (exported,) = (scope.metrics for scope in scopes if scope.scope.name == "grete")
        names = sorted(metric.name for metric in exported)
        print(calls == [os.getpid()], len(exporter.get_finished_spans()), names, flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert not calls
"""


def test_each_forked_node_sets_up_an_sdk_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", SETUP], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    names = ["messaging.client.consumed.messages", "messaging.process.duration"]
    assert done.stdout.splitlines() == [f"True 2 {names}"] * 2


def test_a_setup_that_raises_is_logged_once_and_delays_no_job(
    monitor: Monitor, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise ConnectionError("no collector")

    monitor.subscribe(opentelemetry.OpenTelemetry(setup=fails))
    run(nothing, monitor, job_of([]), job_of([]))
    assert [
        record.getMessage() for record in caplog.records if "OpenTelemetry.on_job_started " in record.getMessage()
    ] != []
    assert len(caplog.records) == 1
