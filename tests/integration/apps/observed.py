"""App that traces its jobs with OpenTelemetry, with an SDK for each node. For `grete swarm`."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import grete
from grete.instrumentation.opentelemetry import OpenTelemetry


class File(SpanExporter):
    """A line for each span, in a file that all nodes write to."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """One write for all of them."""
        lines = []
        for span in spans:
            attributes = dict(span.attributes or {})
            lines.append(
                {
                    "records": attributes.get("messaging.batch.message_count", 1),
                    "instance": span.resource.attributes["service.instance.id"],
                    "pid": os.getpid(),
                }
            )
        with Path(os.environ["OBSERVED_SPANS"]).open("a") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines))
        return SpanExportResult.SUCCESS


def setup() -> None:
    """In each node: the processor has a thread, and each node is an instance of its own."""
    provider = TracerProvider(resource=Resource.create({"service.instance.id": str(uuid.uuid4())}))
    provider.add_span_processor(BatchSpanProcessor(File()))
    trace.set_tracer_provider(provider)


app = grete.App(
    os.environ["OBSERVED_TOPIC"],
    kafka={
        "bootstrap.servers": os.environ["OBSERVED_SERVERS"],
        "session.timeout.ms": 3000,
        "heartbeat.interval.ms": 300,
    },
    workers=2,
)
app.monitor.subscribe(OpenTelemetry(setup=setup))


@app.consumer(os.environ["OBSERVED_TOPIC"])
def book(messages: grete.Messages) -> None:
    """Nothing of its own."""
    assert len(messages)
