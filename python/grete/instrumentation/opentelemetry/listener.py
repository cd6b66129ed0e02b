"""Listener that makes a span for each job, and exports metrics."""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from contextvars import Token
from typing import Any

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Link, Span, SpanKind, StatusCode

from grete._native import Event, Messages, __version__
from grete.errors import RetryLater
from grete.instrumentation.opentelemetry.gauges import Gauges
from grete.instrumentation.opentelemetry.propagation import extract, sender_contexts

Attributes = dict[str, str | bool | int | float]

# Semantic conventions that define the names and attributes.
_SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
# Bucket bounds of the conventions, in seconds.
_BUCKET_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
# Maximum links from a job's span to spans that sent its records.
_MAX_LINKS = 128


class OpenTelemetry:
    """Exports the jobs of an App to OpenTelemetry: `app.monitor.subscribe(OpenTelemetry())`.

    Each job has a span `process TOPIC` of the kind CONSUMER, current while its handler runs, in the handler's thread or
    task. The sender of a job's only record is the parent; the senders of a batch are linked, each once, 128 at most. A
    handler that raises marks the span as failed; a handler that asks for a retry (`grete.RetryLater`) does not.

    Metrics are the histogram `messaging.process.duration` and the counter `messaging.client.consumed.messages`, both
    with `error.type` if a handler raised. All metrics of docs/metrics.md except histograms are observed, with the
    values of the last `statistics.emitted`.

    `tracer_provider` and `meter_provider` default to the process's own. `setup` is called once in each process that
    runs jobs, before the first of them. Exporters have threads, which nodes of a swarm do not inherit, so create
    exporters in `setup`. One listener for each App.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        *,
        setup: Callable[[], object] | None = None,
    ) -> None:
        self._setup = Once(setup) if setup is not None else None
        # The process's default providers are proxies: they follow a provider that is set later, by `setup` for
        # instance.
        self._tracer = trace.get_tracer("grete", __version__, tracer_provider, _SCHEMA)
        meter = metrics.get_meter("grete", __version__, meter_provider, _SCHEMA)
        self._duration = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=_BUCKET_BOUNDS,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        self._gauges = Gauges(meter)
        # Span of each running job, and the token that restores the context before it, by the id() of the job's
        # messages: no two running jobs share it.
        self._open: dict[int, tuple[Span, Token[context.Context]]] = {}

    def on_job_started(self, occurred: Event) -> None:
        """Starts the span of a job, which is current until the job has ended.

        Called, like `on_job_finished`, in the thread and in the context of the handler.
        """
        if self._setup is not None:
            self._setup()
        job = occurred.payload
        messages: Messages = job["messages"]
        attributes = _attributes(job) | {
            "messaging.operation.type": "process",
            "messaging.destination.partition.id": str(job["partition"]),
            "grete.handler": job["handler"],
            "grete.attempt": job["attempt"],
        }
        around, links = context.get_current(), []
        if job["records"] == 1:
            message = messages[0]
            if headers := message.headers:
                around = extract(headers, around)  # includes baggage
            attributes["messaging.kafka.offset"] = job["first_offset"]
            if message.value is None:
                attributes["messaging.kafka.message.tombstone"] = True
        else:
            links = [Link(sender) for sender in sender_contexts(messages, _MAX_LINKS)]
            attributes["messaging.batch.message_count"] = job["records"]
            attributes["grete.first_offset"] = job["first_offset"]
            attributes["grete.last_offset"] = job["last_offset"]
        span = self._tracer.start_span(
            f"process {job['topic']}",
            context=around,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        )
        token = context.attach(trace.set_span_in_context(span, around))
        self._open[id(messages)] = span, token

    def on_job_finished(self, occurred: Event) -> None:
        """Ends the span, and records the metrics."""
        job = occurred.payload
        error = job["error"]
        measured = _attributes(job)
        retry = error.delay if isinstance(error, RetryLater) else None
        if error is not None and retry is None:
            measured["error.type"] = _class_name(error)
        # While the span is current, so that exemplars refer to it.
        self._duration.record(job["time"], measured)
        self._consumed.add(job["records"], measured)
        # A listener subscribed while the handler ran has no span to end.
        open_span = self._open.pop(id(job["messages"]), None)
        if open_span is None:
            return
        span, token = open_span
        if retry is not None:
            span.set_attribute("grete.retry_later", retry)
        elif error is not None:
            span.set_attribute("error.type", measured["error.type"])
            span.set_status(StatusCode.ERROR, _error_text(error))
            with contextlib.suppress(Exception):  # of its `__str__`
                span.record_exception(error)
        span.end()
        context.detach(token)

    def on_statistics_emitted(self, occurred: Event) -> None:
        """Updates the observed metrics."""
        if self._setup is not None:
            self._setup()
        self._gauges.update(occurred["metrics"])

    def on_app_stopped(self, _occurred: Event) -> None:
        """Drops the gauges, because no job runs any more. At process exit, the SDK sends what its exporters hold."""
        self._gauges.drop_gauges()


def _attributes(job: Mapping[str, Any]) -> Attributes:
    """Returns the attributes that spans and metrics share."""
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.destination.name": job["topic"],
        "messaging.consumer.group.name": job["group"],
    }


def _class_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _error_text(error: BaseException) -> str | None:
    try:
        return str(error)
    except Exception:  # its `__str__` may raise, too
        return None


class Once:
    """Calls a function the first time in each process; concurrent callers wait for that call.

    A function that raises is not called again: otherwise each job would call it again and fail.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._done_in: int | None = None
        # One lock per process: a fork may copy the parent's lock while it is held by a thread that the child lacks.
        self._locks: dict[int, threading.Lock] = {}

    def __call__(self) -> None:
        """Calls the function unless this process has done so. Raises what the function raises."""
        pid = os.getpid()
        if self._done_in == pid:
            return
        with self._locks.setdefault(pid, threading.Lock()):
            if self._done_in != pid:
                try:
                    self._function()
                finally:
                    self._done_in = pid
