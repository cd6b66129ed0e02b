"""Traces for a Datadog agent or an OpenTelemetry collector. Native spans are encoded to the wire format and sent by a
thread that needs no GIL.

tracer = Tracer(service="orders", env="production")
with tracer.start("order.book", resource=order.kind, parent=tracer.extract(message.headers)) as span:
    span.set_tag("customer", order.customer)

app.monitor.subscribe(tracer)  # a span for each job
"""

import atexit
import platform
import weakref
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal, Self

from grete import _native
from grete._native import Event, Span, SpanContext
from grete.errors import ConfigError
from grete.instrumentation import exporter_config
from grete.instrumentation.monitor import Listener

__all__ = ["HEADERS", "Span", "SpanContext", "Tracer"]

HEADERS: Final = frozenset(
    {
        "x-datadog-trace-id",
        "x-datadog-parent-id",
        "x-datadog-sampling-priority",
        "x-datadog-origin",
        "x-datadog-tags",
        "traceparent",
        "tracestate",
    }
)
"""Names of all headers that `Tracer.inject` writes and `Tracer.extract` reads, in lower case."""

# Seconds for the agent to accept the last spans.
_FLUSH_TIMEOUT = 2.0

_tracers: "weakref.WeakSet[Tracer]" = weakref.WeakSet()


class Tracer(_native.Tracer):
    """Starts spans, and sends finished ones to a Datadog agent or to an OpenTelemetry collector.

    `app.monitor.subscribe(tracer)` makes a span for each job of the App, current while the job's handler runs. The span
    has links to the spans that sent the job's records; for a job with one record, the sender's span is its parent
    instead. With `messages`, handlers that get records one by one have a span for each record, too, within the job's
    span. When the App stops, unsent spans have 2 s to be sent.

    `service`, `env`, `version` and `agent` default to what Datadog's own tracers read from the environment:
    `DD_SERVICE`, `DD_ENV`, `DD_VERSION`, and `DD_TRACE_AGENT_URL` or `DD_AGENT_HOST` and `DD_TRACE_AGENT_PORT`. `agent`
    is "http://HOST:PORT" or "unix:///PATH/OF/SOCKET". Raises `ConfigError` for invalid values; an unreachable agent is
    no error.

    `encoder="otlp"` sends OTLP over HTTP, in Protocol Buffers, to a collector instead. The defaults are then what
    OpenTelemetry's SDKs read from the environment; docs/tracing.md names the variables. A URL without a path gets
    `/v1/traces`. `headers` are sent with each request.

    Spans of a trace are sent when all of them are finished (a large trace earlier, in parts), after at most `interval`
    seconds. At most `max_spans` finished spans wait for the agent, in at most `max_bytes` of memory. Beyond that the
    newest are dropped, and counted in `statistics()`. Starting, tagging and finishing a span never wait for the
    network. `timeout` is the limit of one request, in seconds.

    The thread starts with the first finished trace, so a tracer may be created before a fork. A forked child has a
    thread of its own, and none of its parent's spans. When the interpreter ends, unsent spans have 2 s to be sent.
    """

    def __new__(
        cls,
        service: str | None = None,
        *,
        env: str | None = None,
        version: str | None = None,
        agent: str | None = None,
        encoder: Literal["datadog", "otlp"] = "datadog",
        headers: Mapping[str, str] | None = None,
        max_spans: int = 65_536,
        max_bytes: int = 32 * 1024 * 1024,
        interval: float = 1.0,
        timeout: float = 2.0,
        messages: bool = False,
    ) -> Self:
        targets = {"datadog": exporter_config.datadog, "otlp": exporter_config.otlp}
        if encoder not in targets:
            raise ConfigError(f'encoder={encoder!r} is none: "datadog" or "otlp"', setting="encoder")
        config = targets[encoder](service, env, version, agent, headers)
        if max_spans < 1 or max_bytes < 1:
            name = "max_spans" if max_spans < 1 else "max_bytes"
            raise ConfigError(f"{name} has to be at least 1: without room, every span is dropped", setting=name)
        tracer = super().__new__(
            cls,
            service=config.service,
            env=config.env,
            version=config.version,
            agent=config.agent,
            path=config.path,
            headers=config.headers,
            resource=config.resource,
            language=(platform.python_version(), platform.python_implementation()),
            max_spans=max_spans,
            max_bytes=max_bytes,
            interval=interval,
            timeout=timeout,
        )
        tracer._messages = messages
        _tracers.add(tracer)
        return tracer

    _messages: bool

    @property
    def on_message_process(self) -> Listener | None:
        """Listener that starts a record's span. None without `messages`: then the monitor subscribes nothing."""
        return self._begin_message if self._messages else None

    @property
    def on_message_processed(self) -> Listener | None:
        """Listener that ends a record's span. None without `messages`."""
        return self._end_message if self._messages else None

    def on_app_stopped(self, _occurred: Event) -> None:
        """Sends the remaining spans, because no handler runs any more."""
        self.flush(_FLUSH_TIMEOUT)

    def inject(
        self,
        headers: MutableMapping[str, Any] | list[tuple[str, Any]],
        span: Span | SpanContext | None = None,
    ) -> None:
        """Adds the headers of a span, by default of the current one, and replaces such headers that exist already.

        Values are bytes, like those of records. Without a current span nothing is changed.
        """
        pairs = self.headers(span)
        if not pairs:
            return
        if isinstance(headers, MutableMapping):
            for name in [name for name in headers if name.lower() in HEADERS]:
                del headers[name]
            headers.update(pairs)
        else:
            headers[:] = [header for header in headers if header[0].lower() not in HEADERS]
            headers.extend(pairs)


@atexit.register
def _close_all() -> None:
    for tracer in list(_tracers):
        tracer.close(_FLUSH_TIMEOUT)
