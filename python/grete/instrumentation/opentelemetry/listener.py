"""The listener: a span for each job, and what was measured."""

import contextlib
from collections.abc import Callable, Mapping
from contextvars import Token
from typing import Any

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Link, Span, SpanKind, StatusCode

from grete import __version__
from grete._core import Messages, Occurred
from grete.errors import RetryLater
from grete.instrumentation.opentelemetry.gauges import Gauges
from grete.instrumentation.opentelemetry.once import Once
from grete.instrumentation.opentelemetry.propagation import extract, senders

Attributes = dict[str, str | bool | int | float]

# The conventions that names and attributes are of.
_SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
# As they want them, in seconds.
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
# Of a job's span, to spans that sent its records.
_MOST_LINKS = 128


class OpenTelemetry:
    """Tells OpenTelemetry of an App's jobs: `app.monitor.subscribe(OpenTelemetry())`.

    A span `process TOPIC` of the kind CONSUMER for each job, current while its handler runs: in its thread, or in its
    task. The sender of a job's only record is its parent; the senders of a batch are linked, each once, 128 of them at
    most. A handler that raises makes it an error; one that asks for another try (`grete.RetryLater`) does not.

    The histogram `messaging.process.duration` and the counter `messaging.client.consumed.messages`, both with
    `error.type` where a handler raised; and all that docs/metrics.md lists but its histograms, observed as
    `statistics.emitted` tells it.

    `tracer_provider` and `meter_provider` default to the process's own. `setup` is called once in each process that
    runs jobs, before the first of them: exporters have threads, which no node of a swarm inherits, so that they are to
    be made there. One listener for each App.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        *,
        setup: Callable[[], object] | None = None,
    ) -> None:
        self._setup = Once(setup) if setup is not None else None
        # Those of the process come to be what `setup`, or anybody, makes of them.
        self._tracer = trace.get_tracer("grete", __version__, tracer_provider, _SCHEMA)
        meter = metrics.get_meter("grete", __version__, meter_provider, _SCHEMA)
        self._duration = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=_BOUNDS,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        self._gauges = Gauges(meter)
        # Spans of jobs that run, and what makes the context before them the current one again, by the address of what
        # they are about: two at a time never have the same.
        self._open: dict[int, tuple[Span, Token[context.Context]]] = {}

    def on_consumer_consume(self, occurred: Occurred) -> None:
        """A job is about to run: its span begins, and is the current one until it has ended.

        This and the end come in the thread, and in the context, that the handler runs in.
        """
        if self._setup is not None:
            self._setup()
        job = occurred.payload
        messages: Messages = job["messages"]
        attributes = _place(job) | {
            "messaging.operation.type": "process",
            "messaging.destination.partition.id": str(job["partition"]),
            "grete.handler": job["handler"],
            "grete.attempt": job["attempt"],
        }
        around, links = context.get_current(), []
        if job["records"] == 1:
            message = messages[0]
            if headers := message.headers:
                around = extract(headers, around)  # with all that goes along: baggage
            attributes["messaging.kafka.offset"] = job["first_offset"]
            if message.value is None:
                attributes["messaging.kafka.message.tombstone"] = True
        else:
            links = [Link(sender) for sender in senders(messages, _MOST_LINKS)]
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

    def on_consumer_consumed(self, occurred: Occurred) -> None:
        """It has ended."""
        job = occurred.payload
        error = job["error"]
        measured = _place(job)
        retry = error.delay if isinstance(error, RetryLater) else None
        if error is not None and retry is None:
            measured["error.type"] = _class(error)
        # While the span is the current one: exemplars tell of it.
        self._duration.record(job["time"], measured)
        self._consumed.add(job["records"], measured)
        # Whoever subscribes while a handler runs hears its end only.
        begun = self._open.pop(id(job["messages"]), None)
        if begun is None:
            return
        span, token = begun
        if retry is not None:
            span.set_attribute("grete.retry_later", retry)
        elif error is not None:
            span.set_attribute("error.type", measured["error.type"])
            span.set_status(StatusCode.ERROR, _text(error))
            with contextlib.suppress(Exception):  # of its `__str__`
                span.record_exception(error)
        span.end()
        context.detach(token)

    def on_statistics_emitted(self, occurred: Occurred) -> None:
        """What is observed from now on."""
        if self._setup is not None:
            self._setup()
        self._gauges.take(occurred["metrics"])

    def on_app_stopped(self, _occurred: Occurred) -> None:
        """Nothing runs that could be observed. What exporters still hold is the SDK's to send when the process ends."""
        self._gauges.keep_counters()


def _place(job: Mapping[str, Any]) -> Attributes:
    """What spans and metrics say alike."""
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.destination.name": job["topic"],
        "messaging.consumer.group.name": job["group"],
    }


def _class(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str | None:
    try:
        return str(error)
    except Exception:  # whoever wrote its __str__ erred, too
        return None
