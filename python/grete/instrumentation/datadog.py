"""Traces for a Datadog agent or an OpenTelemetry collector: spans from native objects straight to what goes over the
wire, sent by a thread that needs no GIL.

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

from grete import _core
from grete._core import Occurred, Span, SpanContext
from grete.errors import ConfigError
from grete.instrumentation import target
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
"""The names of all headers that `Tracer.inject` writes and `Tracer.extract` reads, in lower case."""

# What the agent has, in seconds, to take the last spans.
_LAST = 2.0

_tracers: "weakref.WeakSet[Tracer]" = weakref.WeakSet()


class Tracer(_core.Tracer):
    """Begins spans and sends those that are finished to a Datadog agent, or to an OpenTelemetry collector.

    `app.monitor.subscribe(tracer)`: a span for each job of the App, current while its handler runs, with links to the
    spans that sent its records; the sender of a job's only record is its parent instead. With `messages`, handlers that
    get records one by one have a span for each of them, too, within the job's. When the App stops, what is not sent yet
    has 2 s for it.

    `service`, `env`, `version` and `agent` default to what Datadog's own tracers read from the environment:
    `DD_SERVICE`, `DD_ENV`, `DD_VERSION`, and `DD_TRACE_AGENT_URL` or `DD_AGENT_HOST` and `DD_TRACE_AGENT_PORT`. `agent`
    is "http://HOST:PORT" or "unix:///PATH/OF/SOCKET". Raises `ConfigError` for what cannot be used; an agent that is
    away is no error.

    `encoder="otlp"` speaks OTLP over HTTP in Protocol Buffers to a collector instead. The defaults are what
    OpenTelemetry's SDKs read from the environment, then: docs/tracing.md names the variables. Of URLs without a path,
    `/v1/traces` is asked. `headers` go with each request.

    Spans of a trace go when none of them is open any more (a large trace earlier, in parts), after at most `interval`
    seconds. At most `max_spans` finished spans, and `max_bytes` of memory for them, wait for the agent: beyond that the
    newest are dropped, and counted in `statistics()`. Starting, tagging and finishing never wait for the network.
    `timeout` is for one request, in seconds.

    The thread begins with the first finished trace, so that a tracer may be made before a fork. A forked child goes on
    with a thread of its own and nothing of its parent's spans. What is not sent yet when the interpreter ends has 2 s
    for it.
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
        targets = {"datadog": target.datadog, "otlp": target.otlp}
        if encoder not in targets:
            raise ConfigError(f'encoder={encoder!r} is none: "datadog" or "otlp"', setting="encoder")
        to = targets[encoder](service, env, version, agent, headers)
        if max_spans < 1 or max_bytes < 1:
            name = "max_spans" if max_spans < 1 else "max_bytes"
            raise ConfigError(f"{name} has to be at least 1: without room, every span is dropped", setting=name)
        tracer = super().__new__(
            cls,
            service=to.service,
            env=to.env,
            version=to.version,
            agent=to.agent,
            path=to.path,
            headers=to.headers,
            resource=to.resource,
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
        """Begins a record's span. None, which nobody can subscribe, without `messages`."""
        return self._begin_message if self._messages else None

    @property
    def on_message_processed(self) -> Listener | None:
        """Ends it."""
        return self._end_message if self._messages else None

    def on_app_stopped(self, _occurred: Occurred) -> None:
        """Nobody works any more: sends what is there."""
        self.flush(_LAST)

    def inject(
        self,
        headers: MutableMapping[str, Any] | list[tuple[str, Any]],
        span: Span | SpanContext | None = None,
    ) -> None:
        """Adds headers that tell of a span, by default of the current one, in place of such that are there already.

        Values are bytes, as records want them. Without a current span nothing is changed.
        """
        told = self.headers(span)
        if not told:
            return
        if isinstance(headers, MutableMapping):
            for name in [name for name in headers if name.lower() in HEADERS]:
                del headers[name]
            headers.update(told)
        else:
            headers[:] = [header for header in headers if header[0].lower() not in HEADERS]
            headers.extend(told)


@atexit.register
def _close_all() -> None:
    for tracer in list(_tracers):
        tracer.close(_LAST)
