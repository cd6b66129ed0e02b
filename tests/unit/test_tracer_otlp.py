"""Spans for an OpenTelemetry collector, as OpenTelemetry's own decoder reads them."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

import grete
from grete import _native
from grete.errors import ConfigError
from grete.instrumentation import Monitor
from grete.instrumentation.datadog import Tracer
from tests.unit.fake_agent import FakeAgent, Request, answer, fake_agent
from tests.unit.fake_jobs import FakeJob
from tests.unit.record_batches import Record, batch
from tests.unit.test_hook_runner import Rig

VARIABLES = [
    "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "DD_SERVICE", "DD_ENV", "DD_VERSION",
]  # fmt: skip


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def collector() -> Iterator[FakeAgent]:
    with fake_agent() as collector:
        collector.reply = lambda request: answer(200, b"")
        yield collector


def tracer_for(collector: FakeAgent, **settings: Any) -> Tracer:
    return Tracer("orders", encoder="otlp", agent=collector.url, **{"interval": 0.01, **settings})


def values(attributes: Any) -> dict[str, Any]:
    """Each once."""
    pairs: list[KeyValue] = list(attributes)
    found = {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}
    assert len(found) == len(pairs)
    return found


def decoded(request: Request) -> list[tuple[dict[str, Any], list[Span]]]:
    """Resources with their spans."""
    message = ExportTraceServiceRequest.FromString(request.body)
    assert message.SerializeToString(deterministic=True)  # all of it is known and in range
    found = []
    for resource in message.resource_spans:
        (scope,) = resource.scope_spans
        assert scope.scope.name == "grete"
        found.append((values(resource.resource.attributes), list(scope.spans)))
    return found


def spans(collector: FakeAgent) -> list[Span]:
    return [span for request in collector.requests for _, spans in decoded(request) for span in spans]


def dropped(tracer: Tracer) -> dict[str, int]:
    return {reason: count for reason, count in tracer.statistics()["dropped"].items() if count}


def test_a_trace_arrives_as_it_was_written(collector: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "cloud.region=eu,team=a%2Cb, service.version=9")
    tracer = tracer_for(collector, env="test", version="1.2", headers={"Authorization": "Bearer secret"})
    with tracer.start("kafka.consume", resource="orders[0]", span_type="worker") as root:
        root.set_tag("span.kind", "consumer")
        root.set_tag("topic", "orders")
        root.set_tag("records", 20)
        root.set_tag("below", -1)
        root.set_tag("flag", True)
        root.set_tag("huge", 2**60)
        root.set_metric("amount", 2.0)
        with tracer.start("book") as child:
            child.set_tag("odd", "\0é\ud800" * 9)
    assert tracer.close()

    (request,) = collector.requests
    assert request.line == "POST /v1/traces HTTP/1.1"
    assert request.headers["content-type"] == "application/x-protobuf"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["user-agent"].startswith("grete/")
    assert "x-datadog-trace-count" not in request.headers
    ((resource, (book, job)),) = decoded(request)
    assert len(resource.pop("service.instance.id")) == 32
    assert resource.pop("telemetry.sdk.version")
    assert resource.pop("process.runtime.version")
    assert resource == {
        "service.name": "orders", "service.version": "1.2", "deployment.environment.name": "test",
        "telemetry.sdk.name": "grete", "telemetry.sdk.language": "python", "process.runtime.name": "CPython",
        "process.pid": os.getpid(), "cloud.region": "eu", "team": "a,b",
    }  # fmt: skip
    assert job.trace_id == book.trace_id == root.trace_id.to_bytes(16, "big")
    assert (job.span_id, job.parent_span_id) == (root.span_id.to_bytes(8, "big"), b"")
    assert (book.span_id, book.parent_span_id) == (child.span_id.to_bytes(8, "big"), job.span_id)
    assert (job.name, book.name) == ("kafka.consume", "book")
    assert (job.kind, book.kind) == (Span.SPAN_KIND_CONSUMER, Span.SPAN_KIND_INTERNAL)
    assert job.start_time_unix_nano <= book.start_time_unix_nano <= book.end_time_unix_nano <= job.end_time_unix_nano
    assert values(job.attributes) == {
        "topic": "orders", "records": 20, "below": -1, "flag": "true", "huge": str(2**60), "amount": 2.0,
        "resource.name": "orders[0]", "span.type": "worker",
    }  # fmt: skip
    assert isinstance(values(job.attributes)["amount"], float)
    assert values(book.attributes) == {"odd": "\0é\ufffd\ufffd\ufffd" * 9}
    assert (job.flags, job.status.code, len(job.events)) == (1, Status.STATUS_CODE_UNSET, 0)
    assert tracer.statistics()["bytes"] == len(request.body)


def test_an_exception_is_an_event_and_a_status(collector: FakeAgent) -> None:
    tracer = tracer_for(collector)
    with pytest.raises(ValueError, match="no such order"), tracer.start("job"):
        raise ValueError("no such order")
    plain = tracer.start("plain")
    plain.set_error()
    plain.finish()
    assert tracer.close()
    job, plain_span = spans(collector)
    assert (job.status.code, job.status.message) == (Status.STATUS_CODE_ERROR, "no such order")
    assert values(job.attributes) == {"error.type": "ValueError"}
    (event,) = job.events
    assert (event.name, event.time_unix_nano) == ("exception", job.end_time_unix_nano)
    attributes = values(event.attributes)
    assert (attributes["exception.type"], attributes["exception.message"]) == ("ValueError", "no such order")
    assert 'raise ValueError("no such order")' in attributes["exception.stacktrace"]
    assert (plain_span.status.code, plain_span.status.message) == (Status.STATUS_CODE_ERROR, "")
    assert not plain_span.events


def test_contexts_and_links_arrive(collector: FakeAgent) -> None:
    tracer = tracer_for(collector)
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    far = tracer.extract({"traceparent": parent, "tracestate": "foo=1"})
    assert far is not None
    with tracer.start("child", parent=far):
        pass
    with tracer.start("batch", parent=None) as batch:
        batch.link(far, {"record": "orders[0]@7"})
    assert tracer.close()
    child, batch_span = spans(collector)
    assert child.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert (child.parent_span_id.hex(), child.trace_state) == ("00f067aa0ba902b7", "foo=1")
    (link,) = batch_span.links
    assert (link.trace_id, link.span_id, link.trace_state) == (child.trace_id, child.parent_span_id, "foo=1")
    assert (link.flags, values(link.attributes)) == (1, {"record": "orders[0]@7"})


def test_other_services_are_resources_of_their_own(collector: FakeAgent) -> None:
    tracer = tracer_for(collector, version="1", interval=60)
    with tracer.start("job"):
        tracer.start("query", service="db").finish()
    assert tracer.close()
    (request,) = collector.requests
    found = [
        (resource["service.name"], resource.get("service.version"), len(spans)) for resource, spans in decoded(request)
    ]
    assert found == [("db", None, 1), ("orders", "1", 1)]


def test_unsampled_spans_are_not_sent(collector: FakeAgent) -> None:
    tracer = tracer_for(collector)
    unsampled = tracer.extract({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"})
    tracer.start("unwanted", parent=unsampled).finish()
    tracer.start("wanted").finish()
    assert tracer.close()
    assert [span.name for span in spans(collector)] == ["wanted"]
    assert dropped(tracer) == {"unsampled": 1}


def test_many_spans_arrive_once_and_large_requests_in_parts(collector: FakeAgent) -> None:
    tracer = tracer_for(collector, interval=60)
    collector.reply = lambda request: answer(413 if len(request.body) > 100_000 else 200, b"")
    for number in range(100):
        span = tracer.start("job", parent=None, service=["orders", "db"][number % 3 == 0])
        span.set_tag("text", "x" * 10_000)
        span.finish()
    assert tracer.close(30)
    taken = [request for request in collector.requests if len(request.body) <= 100_000]
    ids = [span.span_id for request in taken for _, spans in decoded(request) for span in spans]
    assert len(ids) == len(set(ids)) == tracer.statistics()["sent"] == 100


def test_what_is_taken_in_part_is_counted_and_not_sent_again(collector: FakeAgent) -> None:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 2
    response.partial_success.error_message = "too old"
    collector.reply = lambda request: answer(200, response.SerializeToString())
    tracer = tracer_for(collector, interval=60)
    for _ in range(5):
        tracer.start("job", parent=None).finish()
    assert tracer.close()
    assert (len(collector.requests), tracer.statistics()["sent"], dropped(tracer)) == (1, 3, {"refused": 2})


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "refused"), (404, "refused"), (408, "refused"), (500, "failing"), (501, "failing"), (413, "too_large")],
)
def test_what_must_not_be_sent_again_is_not(collector: FakeAgent, status: int, reason: str) -> None:
    collector.reply = lambda request: answer(status, b"")
    tracer = tracer_for(collector)
    tracer.start("job").finish()
    assert tracer.flush(30)
    assert (len(collector.requests), dropped(tracer)) == (1, {reason: 1})
    assert tracer.close()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_be_sent_again_is(collector: FakeAgent, status: int) -> None:
    answers = iter([answer(status, b"")])
    collector.reply = lambda request: next(answers, answer(200, b""))
    tracer = tracer_for(collector)
    tracer.start("job").finish()
    assert tracer.flush(30)
    counters = tracer.statistics()
    assert (len(collector.requests), counters["sent"], counters["retried"]) == (2, 1, 1)
    assert tracer.close()


def test_retry_after_of_a_collector_is_respected(collector: FakeAgent) -> None:
    """Without its header, the next request would come after 0.1 s at the latest."""
    answers = iter([answer(503, b"", "Retry-After: 120")])
    collector.reply = lambda request: next(answers, answer(200, b""))
    tracer = tracer_for(collector)
    tracer.start("job").finish()
    assert not tracer.flush(1.0)
    assert (len(collector.requests), tracer.statistics()["waiting"]) == (1, 1)
    assert tracer.close(30)  # who goes does not wait so long: it is asked once more
    assert (len(collector.requests), tracer.statistics()["sent"]) == (2, 1)


@pytest.mark.parametrize("body", [b"\xff" * 50, b"<html>", b"\n\x02\x08"])
def test_a_good_answer_that_says_nonsense_is_good(collector: FakeAgent, body: bytes) -> None:
    collector.reply = lambda request: answer(200, body)
    tracer = tracer_for(collector)
    tracer.start("job").finish()
    assert tracer.close()
    assert (tracer.statistics()["sent"], dropped(tracer)) == (1, {})


@pytest.mark.parametrize(
    ("variable", "suffix", "asked"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "", "/v1/traces"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "/otel/", "/otel/v1/traces"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "", "/"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/spans", "/spans"),
        ("agent", "", "/v1/traces"),
        ("agent", "/otel", "/otel/v1/traces"),
        ("agent", "/v1/traces", "/v1/traces"),
    ],
)
def test_the_path_is_as_opentelemetry_has_it(
    collector: FakeAgent, monkeypatch: pytest.MonkeyPatch, variable: str, suffix: str, asked: str
) -> None:
    url, given = collector.url + suffix, {}
    if variable == "agent":
        given = {"agent": url}
    else:
        monkeypatch.setenv(variable, url)
    tracer = Tracer("orders", encoder="otlp", **given)  # type: ignore[arg-type]
    tracer.start("job").finish()
    assert tracer.close()
    assert [request.line for request in collector.requests] == [f"POST {asked} HTTP/1.1"]


def test_settings_come_from_opentelemetrys_environment(collector: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "OTEL_SERVICE_NAME": "billing",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,service.version=3,deployment.environment.name=prod",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
        "OTEL_EXPORTER_OTLP_HEADERS": "x=unused",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "Api-Key=a%20b, x-team = ledger",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    tracer = Tracer(encoder="otlp")
    tracer.start("job").finish()
    assert tracer.close()
    (request,) = collector.requests
    assert (request.headers["api-key"], request.headers["x-team"], "x" in request.headers) == ("a b", "ledger", False)
    ((resource, _),) = decoded(request)
    found = [resource[key] for key in ("service.name", "service.version", "deployment.environment.name")]
    assert found == ["billing", "3", "prod"]


@pytest.mark.parametrize(
    ("environment", "settings", "message"),
    [
        ({}, {"service": None}, "OTEL_SERVICE_NAME"),
        ({}, {"encoder": "otpl"}, '"datadog" or "otlp"'),
        ({}, {"agent": "https://collector"}, "plain HTTP"),
        ({}, {"agent": "collector:4317"}, "has no scheme"),
        ({}, {"headers": {"a b": "c"}}, "'a b' cannot be sent"),
        ({}, {"headers": {"a": "c\r\nX: y"}}, "'a' cannot be sent"),
        ({}, {"headers": {"Content-Length": "7"}}, "is set by Grete itself"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "x=y,secret"}, {}, 'pair 2 has no key or no "="'),
        ({"OTEL_RESOURCE_ATTRIBUTES": "=x"}, {}, "pair 1"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"},
            {},
            "http/protobuf only",
        ),
    ],
)
def test_what_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], settings: dict[str, Any], message: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message) as raised:
        Tracer(**{"service": "orders", "encoder": "otlp", **settings})
    assert raised.value.setting
    assert "secret" not in str(raised.value)


def test_a_child_sends_its_own_resource(collector: FakeAgent) -> None:
    tracer = tracer_for(collector)
    tracer.start("parents").finish()
    assert tracer.flush(30)
    pid = os.fork()
    if pid == 0:
        try:
            tracer.start("childs").finish()
            os._exit(0 if tracer.close(30) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert tracer.close()
    found = [
        (resource["process.pid"], [span.name for span in spans])
        for request in collector.requests
        for resource, spans in decoded(request)
    ]
    assert found == [(os.getpid(), ["parents"]), (pid, ["childs"])]


def test_spans_of_jobs_are_called_by_the_conventions(collector: FakeAgent) -> None:
    monitor = Monitor()
    tracer = tracer_for(collector, messages=True)
    monitor.subscribe(tracer)

    def take(message: grete.Message) -> None:
        assert message.value == b"x"

    record = Record(5, b"x", headers=[("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")])
    Rig(take, monitor=monitor).run(FakeJob(messages=_native._testing_decode(batch([record]), "orders", 3)))
    assert tracer.close()
    one, job = spans(collector)
    assert (job.name, job.kind, job.parent_span_id.hex()) == (
        "process orders",
        Span.SPAN_KIND_CONSUMER,
        "00f067aa0ba902b7",
    )
    assert values(job.attributes) == {
        "component": "grete", "messaging.system": "kafka", "messaging.operation.name": "process",
        "messaging.operation.type": "process", "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3", "messaging.consumer.group.name": "billing",
        "messaging.batch.message_count": 1, "messaging.kafka.first_offset": 5, "messaging.kafka.last_offset": 5,
        "grete.attempt": 1, "resource.name": values(job.attributes)["resource.name"], "span.type": "worker",
    }  # fmt: skip
    assert (one.name, one.parent_span_id) == ("handle orders", job.span_id)
    assert values(one.attributes)["messaging.operation.name"] == "handle"
    assert values(one.attributes)["messaging.kafka.offset"] == 5
