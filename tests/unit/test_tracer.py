"""Spans, from their start to what an agent decodes."""

import asyncio
import gc
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grete.errors import ConfigError
from grete.instrumentation.datadog import Span, Tracer
from tests.unit.fake_agent import FakeAgent, answer, fake_agent


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as agent:
        yield agent


@pytest.fixture
def tracer(agent: FakeAgent) -> Iterator[Tracer]:
    tracer = Tracer("orders", env="test", version="1.2", agent=agent.url)
    yield tracer
    tracer.close()


def test_a_trace_arrives_as_it_was_written(agent: FakeAgent, tracer: Tracer) -> None:
    before = time.time_ns()
    with tracer.start("job", resource="orders[0]", span_type="worker") as root:
        assert Tracer.current() is root
        root.set_tag("topic", "orders")
        root.set_tag("records", 20)
        root.set_tag("flag", True)
        root.set_tag("huge", 2**60)
        root.set_tag("path", Path("/a"))
        with tracer.start("book") as child:
            child.set_metric("amount", 2.5)
    assert Tracer.current() is None
    assert tracer.flush()
    after = time.time_ns()

    (request,) = agent.requests
    assert request.line == "PUT /v0.4/traces HTTP/1.1"
    assert request.headers["content-type"] == "application/msgpack"
    assert request.headers["x-datadog-trace-count"] == "1"
    assert request.headers["datadog-meta-lang"] == "python"
    assert request.headers["datadog-meta-tracer-version"].startswith("grete-")
    ((job, book),) = request.traces
    assert (job["name"], job["resource"], job["type"], job["service"]) == ("job", "orders[0]", "worker", "orders")
    assert (book["name"], book["resource"]) == ("book", "book")
    assert "type" not in book
    assert job["trace_id"] == book["trace_id"] == root.trace_id & (2**64 - 1)
    assert (job["span_id"], job["parent_id"]) == (root.span_id, 0)
    assert (book["span_id"], book["parent_id"]) == (child.span_id, root.span_id) == (child.span_id, child.parent_id)
    assert before <= job["start"] <= book["start"] <= book["start"] + book["duration"] <= after
    assert book["start"] + book["duration"] <= job["start"] + job["duration"]
    assert job["error"] == book["error"] == 0
    runtime = job["meta"].pop("runtime-id")
    assert len(runtime) == 32
    assert job["meta"] == {
        "topic": "orders", "flag": "true", "huge": str(2**60), "path": "/a", "env": "test", "version": "1.2",
        "language": "python", "_dd.p.tid": f"{root.trace_id >> 64:016x}", "_dd.p.dm": "-0",
    }  # fmt: skip
    assert job["metrics"] == {"records": 20.0, "_sampling_priority_v1": 1.0, "process_id": os.getpid()}
    assert book["meta"] == {"env": "test", "version": "1.2"}
    assert book["metrics"] == {"amount": 2.5}
    counters = tracer.statistics()
    assert (counters["started"], counters["finished"], counters["sent"], counters["waiting"]) == (2, 2, 2, 0)
    assert counters["bytes"] == len(request.body)


def test_an_exception_makes_an_error_and_goes_on(agent: FakeAgent, tracer: Tracer) -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(ValueError, match="no such order"), tracer.start("job"):
        raise ValueError("no such order")
    with pytest.raises(OddError), tracer.start("job"):
        raise OddError
    span = tracer.start("job")
    span.set_error()
    span.finish()
    assert tracer.flush()
    value, odd, plain = agent.spans
    assert [span["error"] for span in agent.spans] == [1, 1, 1]
    assert (value["meta"]["error.type"], value["meta"]["error.message"]) == ("ValueError", "no such order")
    assert 'raise ValueError("no such order")' in value["meta"]["error.stack"]
    assert odd["meta"]["error.type"].endswith("OddError")
    assert "error.type" not in plain["meta"]


def test_links_arrive(agent: FakeAgent, tracer: Tracer) -> None:
    far = tracer.extract(
        {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "foo=1"}
    )
    assert far is not None
    near = tracer.start("other", parent=None)
    with tracer.start("job", parent=None) as job:
        job.link(far, {"record": "orders[0]@7"})
        job.link(near)
        with pytest.raises(TypeError, match="Span or a SpanContext"):
            job.link("x")  # type: ignore[arg-type]
    near.finish()
    assert tracer.flush()
    first, second = next(span for span in agent.spans if span["name"] == "job")["span_links"]
    assert first == {
        "trace_id": 0xA3CE929D0E0E4736, "trace_id_high": 0x4BF92F3577B34DA6, "span_id": 0x00F067AA0BA902B7,
        "attributes": {"record": "orders[0]@7"}, "tracestate": "foo=1", "flags": 1 << 31 | 1,
    }  # fmt: skip
    assert (second["trace_id_high"] << 64 | second["trace_id"], second["span_id"]) == (near.trace_id, near.span_id)


def test_hostile_text_arrives_as_text(agent: FakeAgent, tracer: Tracer) -> None:
    span = tracer.start("\ud800", resource="\0\x1b" * 9, service="\U0001f600" * 50, span_type="é")
    span.set_tag("lone \udcff", "x" * 100_000)
    span.set_tag("", "")
    span.set_tag("env", "theirs")
    span.set_tag("_dd.p.tid", "theirs")
    span.set_tag("process_id", 1)
    span.set_tag("nan", math.nan)
    span.set_metric("inf", math.inf)
    for index in range(300):
        span.set_tag(f"k{index}", "v" * (index * 7))
    span.finish()
    assert tracer.flush()
    (arrived,) = agent.spans
    meta = arrived["meta"]
    assert (arrived["name"], arrived["resource"], arrived["type"]) == ("\ufffd" * 3, "\0\x1b" * 9, "é")
    assert arrived["service"] == "\U0001f600" * 25
    assert meta["lone \ufffd\ufffd\ufffd"] == "x" * 25_000
    assert (meta[""], meta["env"], len(meta["_dd.p.tid"])) == ("", "test", 16)
    assert arrived["metrics"] == {"_sampling_priority_v1": 1.0, "process_id": os.getpid()}
    assert meta["k251"] == "v" * (251 * 7)
    assert "k252" not in meta
    assert tracer.statistics()["cut"] == 52  # the service, the long value, NaN, the infinity, and tags from k252 on


def test_what_comes_after_the_end_is_nothing(agent: FakeAgent, tracer: Tracer) -> None:
    span = tracer.start("job")
    span.finish()
    span.finish()
    span.set_tag("late", "x")
    span.set_error(ValueError())
    assert span.finished
    assert "finished" in repr(span)
    assert tracer.flush()
    (arrived,) = agent.spans
    assert (arrived["error"], "late" in arrived["meta"]) == (0, False)


def test_a_span_that_is_let_go_holds_nothing_up(agent: FakeAgent, tracer: Tracer) -> None:
    with tracer.start("job"):
        tracer.start("forgotten")
        gc.collect()
    assert tracer.flush()
    assert [span["name"] for span in agent.spans] == ["job"]
    assert tracer.statistics()["abandoned"] == 1


def test_a_large_trace_goes_in_parts(agent: FakeAgent, tracer: Tracer) -> None:
    with tracer.start("job"):
        for _ in range(1_100):
            tracer.start("step").finish()
    assert tracer.flush()
    chunks = [trace for request in agent.requests for trace in request.traces]
    assert [len(chunk) for chunk in chunks] == [500, 500, 101]
    assert chunks[2][0]["name"] == "job"
    for chunk in chunks:
        assert chunk[0]["metrics"]["_sampling_priority_v1"] == 1
        assert len(chunk[0]["meta"]["_dd.p.tid"]) == 16
        assert not any("_sampling_priority_v1" in span["metrics"] for span in chunk[1:])


def test_each_task_has_a_current_span_of_its_own(tracer: Tracer) -> None:
    async def job(name: str) -> tuple[Span | None, Span]:
        with tracer.start(name) as span:
            await asyncio.sleep(0)
            return Tracer.current(), span

    async def both() -> tuple[tuple[Span | None, Span], ...]:
        return await asyncio.gather(job("a"), job("b"))

    results = asyncio.run(both())
    assert all(current is span for current, span in results)
    assert results[0][1].trace_id != results[1][1].trace_id


def test_the_agents_rates_decide_about_new_traces(agent: FakeAgent, tracer: Tracer) -> None:
    rates = b'{"rate_by_service":{"service:,env:":1.0,"service:orders,env:test":0.0,"service:half,env:test":0.5}}'
    agent.reply = lambda request: answer(200, rates)
    tracer.start("before").finish()
    assert tracer.flush()
    for _ in range(100):
        tracer.start("dropped").finish()
        tracer.start("kept", service="others").finish()
        tracer.start("half", service="half").finish()
    assert tracer.flush()
    by_name: dict[str, list[dict[str, float]]] = {}
    for span in agent.spans:
        by_name.setdefault(span["name"], []).append(span["metrics"])
    assert [metrics["_sampling_priority_v1"] for metrics in by_name["before"]] == [1]
    assert {metrics["_sampling_priority_v1"] for metrics in by_name["dropped"]} == {0}
    assert {metrics["_sampling_priority_v1"] for metrics in by_name["kept"]} == {1}
    assert {metrics["_sampling_priority_v1"] for metrics in by_name["half"]} == {0, 1}
    assert {metrics["_dd.agent_psr"] for metrics in by_name["half"]} == {0.5}


def test_a_unix_socket_will_do(tmp_path: Path) -> None:
    with fake_agent(tmp_path / "apm.socket") as agent:
        tracer = Tracer("orders", agent=agent.url)
        tracer.start("job").finish()
        assert tracer.close()
        assert [span["name"] for span in agent.spans] == ["job"]


def test_settings_come_from_datadogs_environment(monkeypatch: pytest.MonkeyPatch, agent: FakeAgent) -> None:
    monkeypatch.setenv("DD_SERVICE", "billing")
    monkeypatch.setenv("DD_ENV", "prod")
    monkeypatch.setenv("DD_TRACE_AGENT_URL", agent.url)
    tracer = Tracer()
    tracer.start("job").finish()
    assert tracer.close()
    assert (agent.spans[0]["service"], agent.spans[0]["meta"]["env"]) == ("billing", "prod")


@pytest.mark.parametrize(
    ("settings", "setting", "message"),
    [
        ({"agent": "localhost:8126"}, "agent", "it has no scheme"),
        ({"agent": "https://agent:8126"}, "agent", "plain HTTP"),
        ({"agent": "http://agent:port"}, "agent", "1 to 65535"),
        ({"interval": 0.0}, "interval", "0.01 to 60"),
        ({"timeout": math.nan}, "timeout", "0.01 to 60"),
        ({"max_spans": 0}, "max_spans", "at least 1"),
        ({"service": ""}, "service", "DD_SERVICE"),
    ],
)
def test_settings_that_cannot_be_used_are_named(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], setting: str, message: str
) -> None:
    monkeypatch.delenv("DD_SERVICE", raising=False)
    with pytest.raises(ConfigError, match=message) as raised:
        Tracer(**{"service": "orders", **settings})  # type: ignore[arg-type]
    assert raised.value.setting == setting
