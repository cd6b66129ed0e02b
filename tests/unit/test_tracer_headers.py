"""A span's place, through the headers of records."""

import pytest

from grete.instrumentation.datadog import HEADERS, Tracer

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def tracer() -> Tracer:
    return Tracer("orders", agent="http://127.0.0.1:1", timeout=0.01)


def test_a_place_goes_through_headers_and_back(tracer: Tracer) -> None:
    headers: list[tuple[str, bytes]] = [("own", b"1"), ("Traceparent", b"an older one")]
    with tracer.start("send") as span:
        tracer.inject(headers)
    assert headers[0] == ("own", b"1")
    assert {name for name, _ in headers[1:]} <= HEADERS
    context = tracer.extract(headers)
    assert context is not None
    assert (context.trace_id, context.span_id, context.priority) == (span.trace_id, span.span_id, 1)
    only_w3c = tracer.extract([header for header in headers if header[0].startswith("trace")])
    assert only_w3c is not None
    assert (only_w3c.trace_id, only_w3c.span_id, only_w3c.priority) == (span.trace_id, span.span_id, 1)
    with tracer.start("receive", parent=context) as there:
        assert (there.trace_id, there.parent_id) == (span.trace_id, span.span_id)
        again: dict[str, bytes] = {"Tracestate": b"an older one"}
        tracer.inject(again)
    assert dict(again)["x-datadog-parent-id"] == str(there.span_id).encode()
    assert "Tracestate" not in again
    assert tracer.statistics()["broken_headers"] == 0


def test_without_a_span_nothing_is_written(tracer: Tracer) -> None:
    headers = [("traceparent", PARENT)]
    tracer.inject(headers)
    assert headers == [("traceparent", PARENT)]
    assert tracer.headers() == []


def test_a_decision_made_elsewhere_holds(tracer: Tracer) -> None:
    dropped = tracer.extract([("TraceParent", PARENT[:-1] + b"0")])
    assert dropped is not None
    assert dropped.priority == 0
    with tracer.start("receive", parent=dropped) as span:
        headers = dict(tracer.headers(span))
    assert headers["x-datadog-sampling-priority"] == b"0"
    assert headers["traceparent"].endswith(b"-00")


@pytest.mark.parametrize(
    "value",
    [b"", b"nonsense", b"\xff\xfe", PARENT[:-1], PARENT.upper(), b"ff" + PARENT[2:], 7, "\ud800", b"x" * 100_000],
)
def test_a_broken_one_is_left_out_and_counted(tracer: Tracer, value: object) -> None:
    assert tracer.extract([("traceparent", value)]) is None  # type: ignore[list-item]
    assert tracer.statistics()["broken_headers"] == 1


def test_what_is_no_header_is_passed_by(tracer: Tracer) -> None:
    odd = [(), ("traceparent",), (7, b"x"), "traceparent", None, ("traceparent", None), ("\ud800", b"x")]
    assert tracer.extract(odd) is None  # type: ignore[arg-type]
    assert tracer.extract({"traceparent": PARENT}) is not None
    assert tracer.extract(()) is None
    assert tracer.statistics()["broken_headers"] == 0
