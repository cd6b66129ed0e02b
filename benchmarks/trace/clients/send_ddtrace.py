"""ddtrace: its tracer has finished the spans, with all that it adds to them. Its native writer encodes them (`write`),
reads that again, and sends it, in the calling thread. It uses API v0.5 unless DD_TRACE_API_VERSION says v0.4.
"""

from __future__ import annotations

import os

os.environ |= {
    "DD_ENV": "bench",
    "DD_SERVICE": "orders",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_PARTIAL_FLUSH_ENABLED": "false",  # a trace goes in one piece, however large it is
    "DD_TRACE_STARTUP_LOGS": "false",
}

import ddtrace
from ddtrace.internal.writer import NativeWriter
from ddtrace.trace import Span, tracer

from .rounds import Client, main
from .shape import CHILD, RESOURCE, ROOT, SERVICE, TAGS, TYPE


class Collector:
    """In the place of the tracer's own writer."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def write(self, spans: list[Span] | None = None) -> None:
        """A finished trace."""
        self.spans = list(spans or ())

    def flush_queue(self) -> None:
        """Nothing waits here."""

    def stop(self, timeout: float | None = None) -> None:
        """Nor runs."""


def new(url: str) -> Client:
    """A writer that has no thread of its own, because each `write` sends."""
    writer = NativeWriter(url, sync_mode=True)
    collector = Collector()
    tracer._span_aggregator.writer = collector

    def finish(span: Span) -> None:
        for key, value in TAGS.items():
            span.set_tag(key, value)
        span.finish()

    def make(count: int) -> list[Span]:
        root = tracer.start_span(ROOT, service=SERVICE, resource=RESOURCE, span_type=TYPE)
        for _ in range(count - 1):
            finish(tracer.start_span(CHILD, service=SERVICE, resource=RESOURCE, span_type=TYPE, child_of=root))
        finish(root)
        if len(collector.spans) != count:
            raise SystemExit(f"{len(collector.spans)} of {count} spans have come")
        return collector.spans

    return Client(f"ddtrace {ddtrace.__version__}", make, writer.write)


if __name__ == "__main__":
    main(new)
