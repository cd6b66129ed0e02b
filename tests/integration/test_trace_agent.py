"""Datadog's own test agent takes what we send, and finds nothing wrong with it."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from grete.instrumentation.datadog import Tracer
from tests.integration.trace_agent import Agent, needs_agent

pytestmark = needs_agent


@pytest.fixture
def tracer(agent: Agent) -> Iterator[Tracer]:
    agent.ask("/test/session/clear")
    # A request that times out on a slow machine is sent again, and its spans arrive twice.
    tracer = Tracer("orders", env="test", version="1", agent=agent.url, timeout=60.0)
    yield tracer
    tracer.close()


def test_it_finds_nothing_wrong(agent: Agent, tracer: Tracer) -> None:
    far = tracer.extract([("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")])
    assert far is not None
    with tracer.start("job", resource="orders[0]", span_type="worker") as job:
        job.set_tag("topic", "orders")
        job.set_metric("records", 20)
        job.link(far, {"record": "orders[0]@7"})
        with pytest.raises(ValueError, match="out of stock"), tracer.start("book", service="ledger"):
            raise ValueError("out of stock")
        job.set_error()
    with tracer.start("receive", parent=far):
        pass
    assert tracer.flush(30)
    assert tracer.statistics()["sent"] == 3
    assert agent.checks("Failed") == {}
    assert {"trace_count_header", "meta_tracer_version_header", "trace_content_length"} <= set(agent.checks("Passed"))
    by_name = {span["name"]: span for span in agent.spans()}
    assert by_name["book"]["parent_id"] == by_name["job"]["span_id"]
    assert by_name["book"]["service"] == "ledger"
    assert by_name["job"]["error"] == by_name["book"]["error"] == 1
    assert by_name["book"]["meta"]["error.message"] == "out of stock"
    assert by_name["job"]["metrics"]["records"] == 20
    assert by_name["job"]["span_links"][0]["attributes"] == {"record": "orders[0]@7"}
    assert by_name["receive"]["trace_id"] == 0xA3CE929D0E0E4736
    assert by_name["receive"]["meta"]["_dd.p.tid"] == "4bf92f3577b34da6"


def test_many_traces_of_many_threads_arrive_once(agent: Agent, tracer: Tracer) -> None:
    for _ in range(3_000):
        with tracer.start("job", parent=None) as job:
            job.set_tag("text", "é\0\ud800" * 20)
            tracer.start("step").finish()
    assert tracer.flush(60)
    assert agent.checks("Failed") == {}
    ids = [span["span_id"] for span in agent.spans()]
    assert len(ids) == len(set(ids)) == 6_000


def test_its_rates_are_honoured(agent: Agent, tracer: Tracer) -> None:
    rates = json.dumps({"service:,env:": 1.0, "service:orders,env:test": 0.0})
    agent.ask("/test/session/start?agent_sample_rate_by_service=" + urllib.parse.quote(rates))
    tracer.start("learn").finish()
    assert tracer.flush(30)
    tracer.start("dropped").finish()
    tracer.start("kept", service="others").finish()
    assert tracer.flush(30)
    assert agent.checks("Failed") == {}
    priorities = {span["name"]: span["metrics"]["_sampling_priority_v1"] for span in agent.spans()}
    assert priorities == {"learn": 1, "dropped": 0, "kept": 1}


def test_it_listens_on_a_socket(agent: Agent, tracer: Tracer) -> None:
    there = Tracer("orders", agent=f"unix://{agent.socket}")
    there.start("by socket").finish()
    assert there.close(30)
    assert there.statistics()["sent"] == 1
    assert agent.checks("Failed") == {}
    assert [span["name"] for span in agent.spans()] == ["by socket"]


def test_its_checks_do_find_something(agent: Agent, tracer: Tracer) -> None:
    headers = {"Content-Type": "application/msgpack", "X-Datadog-Trace-Count": "7"}
    request = urllib.request.Request(agent.url + "/v0.4/traces", b"\x90", headers, method="PUT")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=30)
    assert "trace_count_header" in agent.checks("Failed")
    agent.ask("/test/trace_check/clear?clear_all=true")
    assert agent.checks("Failed") == {}


def test_its_collector_takes_what_we_write(agent: Agent) -> None:
    tracer = Tracer("orders", encoder="otlp", env="test", agent=agent.otlp_url)
    with tracer.start("job", resource="orders[0]") as job:
        job.set_tag("span.kind", "consumer")
        job.set_tag("records", 20)
        with pytest.raises(ValueError, match="out of stock"), tracer.start("book", service="ledger"):
            raise ValueError("out of stock")
    assert tracer.close(30)
    assert (tracer.statistics()["sent"], sum(tracer.statistics()["dropped"].values())) == (2, 0)
    (request,) = agent.otlp()
    spans_by_name = {
        span["name"]: (resource["resource"]["attributes"][0]["value"]["string_value"], span)
        for resource in request["resource_spans"]
        for scope in resource["scope_spans"]
        for span in scope["spans"]
    }
    (orders, whole), (ledger, book) = spans_by_name["job"], spans_by_name["book"]
    assert (orders, ledger) == ("orders", "ledger")
    assert (whole["kind"], book["kind"]) == ("SPAN_KIND_CONSUMER", "SPAN_KIND_INTERNAL")
    assert (book["trace_id"], book["parent_span_id"]) == (whole["trace_id"], whole["span_id"])
    assert {"key": "records", "value": {"int_value": "20"}} in whole["attributes"]
    assert (book["status"]["code"], book["events"][0]["name"]) == ("STATUS_CODE_ERROR", "exception")
