"""Jobs of an App over a real broker, as OpenTelemetry's own SDK gets them."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import grete
from grete.client import Producer
from grete.instrumentation.opentelemetry import OpenTelemetry, inject
from tests.integration.app_process import AppRun
from tests.integration.swarm_process import SwarmRun
from tests.integration.topic_reader import consumer, read_to
from tests.kafka import KafkaCluster, eventually
from tests.unit.fake_agent import answer, fake_agent

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "opentelemetry.md"


def produce(kafka: KafkaCluster, topic: str, tracer: trace.Tracer, count: int) -> dict[int, int]:
    """Each record from a span of its own. Returns these spans' ids by offset."""
    sent: dict[int, int] = {}
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for number in range(count):
            headers: list[tuple[str, bytes]] = []
            with tracer.start_as_current_span("send", kind=SpanKind.PRODUCER) as span:
                inject(headers)
                delivery = producer.produce_sync(topic, b"%d" % number, headers=headers, partition=0)
            assert delivery.offset is not None
            sent[delivery.offset] = span.get_span_context().span_id
    return sent


def own(span: ReadableSpan) -> trace.SpanContext:
    place = span.get_span_context()
    assert place is not None
    return place


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    assert data is not None
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    return {metric.name: list(metric.data.data_points) for metric in metrics}


def test_threads_tasks_batches_failures_and_retries(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = tracers.get_tracer("test")
    sent = produce(kafka, topic, tracer, 20)
    failures = [ValueError("out of stock")]
    app = grete.App(topic, kafka={"bootstrap.servers": kafka.bootstrap_servers}, workers=2, statistics_interval="100ms")
    app.monitor.subscribe(OpenTelemetry(tracers, meters))

    @app.consumer(topic, retry=grete.Retry(backoff="10ms"))
    def book(messages: grete.Messages) -> None:
        with tracer.start_as_current_span("db.insert"):
            if failures:
                raise failures.pop()

    @app.consumer(topic, group=f"{topic}-alone", max_messages=1)
    async def alone(message: grete.Message) -> None:
        with tracer.start_as_current_span("db.update"):
            await asyncio.sleep(0)

    with app.running():
        eventually(lambda: not sum(kafka.admin.lag(group, [topic]) for group in (topic, f"{topic}-alone")), 60, "done")
        eventually(lambda: "grete.lag.records" in points(reader), 60, "statistics are exported")
        observed = points(reader)
    jobs = [span for span in exporter.get_finished_spans() if span.kind is SpanKind.CONSUMER]
    batches = sorted(
        (job for job in jobs if said(job)["grete.handler"].endswith("book")), key=lambda job: job.start_time or 0
    )
    singles = [job for job in jobs if said(job)["grete.handler"].endswith("alone")]
    failed, again, *_ = batches
    assert {job.name for job in jobs} == {f"process {topic}"}
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "out of stock")
    assert said(failed)["error.type"] == "ValueError"
    assert [event.name for event in failed.events] == ["exception"]
    assert all(job.status.status_code is StatusCode.UNSET for job in jobs if job is not failed)
    assert [said(job)["grete.attempt"] for job in (failed, again)] == [1, 2]
    for job in batches:
        if said(job).get("messaging.batch.message_count"):
            first, last = (said(job)[f"grete.{which}_offset"] for which in ("first", "last"))
            assert [link.context.span_id for link in job.links] == [sent[offset] for offset in range(first, last + 1)]
    assert len(singles) == 20
    for job in singles:
        assert job.parent is not None
        assert job.parent.span_id == sent[said(job)["messaging.kafka.offset"]]
        assert said(job)["messaging.consumer.group.name"] == f"{topic}-alone"
    parents = {own(job).span_id: own(job).trace_id for job in jobs}
    steps = [span for span in exporter.get_finished_spans() if span.name.startswith("db.")]
    assert len(steps) == len(jobs)
    assert all(step.parent is not None and parents[step.parent.span_id] == own(step).trace_id for step in steps)

    counted = {
        (point.attributes["messaging.consumer.group.name"], point.attributes.get("error.type")): point.value
        for point in observed["messaging.client.consumed.messages"]
    }
    failed_records = int(said(failed).get("messaging.batch.message_count", 1))
    assert counted == {(topic, None): 20, (topic, "ValueError"): failed_records, (f"{topic}-alone", None): 20}
    assert sum(point.count for point in observed["messaging.process.duration"]) == len(jobs)
    lag = {point.attributes["handler"].rpartition(".")[2]: point.value for point in observed["grete.lag.records"]}
    assert lag.keys() == {"book", "alone"}
    assert "grete.process.resident_memory_bytes" in observed
    meters.shutdown()


def test_nodes_of_a_swarm_export_by_themselves(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, partitions=4)
    spans = tmp_path / "spans"
    environment = {"OBSERVED_SERVERS": kafka.bootstrap_servers, "OBSERVED_TOPIC": topic, "OBSERVED_SPANS": str(spans)}
    with SwarmRun("tests.integration.apps.observed:app", tmp_path, environment, nodes=2) as run:
        run.until_ready()
        with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
            for number in range(200):
                producer.produce(topic, b"%d" % number, partition=number % 4)
            producer.flush()
        run.until(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "everything is processed and committed")
        assert run.stop() == 0, run.output
    span_rows = [json.loads(line) for line in spans.read_text().splitlines()]
    assert sum(span["records"] for span in span_rows) == 200
    assert len({span["instance"] for span in span_rows}) == len({span["pid"] for span in span_rows}) == 2


def test_the_documentations_program_exports_to_a_collector(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    (source,) = re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    booked = f"{topic}-booked"
    for here, there in {
        "localhost:9092": kafka.bootstrap_servers,
        'App("shop"': f'App("{topic}"',
        '"orders"': f'"{topic}"',
        '"booked"': f'"{booked}"',
    }.items():
        assert here in source
        source = source.replace(here, there)
    (tmp_path / "documented.py").write_text(source)
    kafka.create_topic(topic)
    kafka.create_topic(booked)
    sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.produce_sync(topic, b"one", headers=[("traceparent", sent.encode()), ("other", b"x")])
    with fake_agent() as collector:
        collector.reply = lambda request: answer(200, b"")
        path = os.pathsep.join([str(tmp_path), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "PYTHONPATH": path}
        with AppRun("documented:app", tmp_path, environment) as run:
            run.until(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "the record is processed")
            assert run.stop() == 0, run.output
        requests = list(collector.requests)
    traces = [
        ExportTraceServiceRequest.FromString(request.body) for request in requests if "/v1/traces" in request.line
    ]
    spans = {
        span.name: span
        for exported_trace in traces
        for resource in exported_trace.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    job, insert = spans[f"process {topic}"], spans["db.insert"]
    assert (job.trace_id.hex(), job.parent_span_id.hex()) == (sent[3:35], sent[36:52])
    assert (insert.trace_id, insert.parent_span_id) == (job.trace_id, job.span_id)
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(booked, 0, 0)])
        (record,) = read_to(reader, {(booked, 0): 1})[booked, 0]
    (other, context) = record.headers
    assert other == ("other", b"x")
    assert context[0] == "traceparent"
    assert (context[1] or b"").decode().split("-")[1:3] == [job.trace_id.hex(), job.span_id.hex()]
    exported_rows = [
        ExportMetricsServiceRequest.FromString(request.body) for request in requests if "/v1/metrics" in request.line
    ]
    names = {
        metric.name
        for one in exported_rows
        for resource in one.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {"messaging.process.duration", "messaging.client.consumed.messages", "grete.records"} <= names
