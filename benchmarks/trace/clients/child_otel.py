"""OpenTelemetry's SDK: a provider that keeps each span, its batch processor, its exporter over HTTP."""

from __future__ import annotations

from contextlib import AbstractContextManager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.version import __version__

from .children import TAGS, Client, main
from .shape import CHILD, ROOT, SERVICE


def new(url: str) -> Client:
    """One provider."""
    provider = TracerProvider(resource=Resource.create({"service.name": SERVICE}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    tracer = provider.get_tracer("benchmark")

    def parent() -> AbstractContextManager[object]:
        return tracer.start_as_current_span(ROOT)

    def children(count: int) -> None:
        (first, one), (second, other) = TAGS
        for _ in range(count):
            with tracer.start_as_current_span(CHILD) as span:
                span.set_attribute(first, one)
                span.set_attribute(second, other)

    return Client(f"OpenTelemetry SDK {__version__}", parent, children, provider.force_flush)


if __name__ == "__main__":
    main(new)
