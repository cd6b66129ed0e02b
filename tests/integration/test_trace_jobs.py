"""Jobs of an App over a real broker, traced into Datadog's own test agent."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grete
from grete.client import Producer
from grete.instrumentation.datadog import Tracer
from tests.integration.swarm_process import SwarmRun
from tests.integration.trace_agent import Agent, needs_agent
from tests.kafka import KafkaCluster, eventually

pytestmark = [pytest.mark.kafka, needs_agent]

Spans = list[dict[str, Any]]


@pytest.fixture
def clear(agent: Agent) -> Iterator[None]:
    agent.ask("/test/session/clear")
    yield
    assert agent.checks("Failed") == {}


def produce(kafka: KafkaCluster, topic: str, tracer: Tracer, count: int) -> dict[int, int]:
    """Each record from a span of its own, "send". Returns these spans' ids by offset."""
    sent: dict[int, int] = {}
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for number in range(count):
            headers: list[tuple[str, bytes]] = []
            with tracer.start("send", parent=None) as span:
                tracer.inject(headers)
                delivery = producer.produce_sync(topic, b"%d" % number, headers=headers, partition=0)
            assert delivery.offset is not None
            sent[delivery.offset] = span.span_id
    assert tracer.flush(30)
    return sent


def named(agent: Agent, name: str) -> Spans:
    return [span for span in agent.spans() if span["name"] == name]


def upper_half(span: dict[str, Any]) -> str:
    found: str = span["meta"]["_dd.p.tid"]
    return found


@pytest.mark.usefixtures("clear")
def test_a_batch_links_to_its_senders_and_one_record_is_their_child(
    kafka: KafkaCluster, agent: Agent, topic: str
) -> None:
    kafka.create_topic(topic)
    tracer = Tracer("orders", env="test", agent=agent.url)
    sent = produce(kafka, topic, tracer, 20)
    failures = [ValueError("out of stock")]
    app = grete.App(topic, kafka={"bootstrap.servers": kafka.bootstrap_servers}, workers=2)
    app.monitor.subscribe(tracer)

    @app.consumer(topic, retry=grete.Retry(backoff="10ms"))
    def batch(messages: grete.Messages) -> None:
        with tracer.start("db.insert") as span:
            span.set_metric("rows", len(messages))
        if failures:
            raise failures.pop()

    @app.consumer(topic, group=f"{topic}-alone", max_messages=1)
    async def alone(messages: grete.Messages) -> None:
        with tracer.start("db.update"):
            await asyncio.sleep(0)

    with app.running():
        eventually(lambda: not sum(kafka.admin.lag(group, [topic]) for group in (topic, f"{topic}-alone")), 60, "done")
    # `app.stopped` has sent what there was.
    assert tracer.statistics()["waiting"] == 0
    jobs = {job["span_id"]: job for job in named(agent, "kafka.consume")}
    batches = [job for job in jobs.values() if job["resource"].endswith("batch")]
    singles = [job for job in jobs.values() if job["resource"].endswith("alone")]
    failed, *others = sorted(batches, key=lambda job: job["start"])
    assert failed["error"] == 1
    assert failed["meta"]["error.message"] == "out of stock"
    assert all(job["error"] == 0 for job in [*others, *singles])
    again = others[0]
    assert (failed["metrics"]["grete.attempt"], again["metrics"]["grete.attempt"]) == (1, 2)
    for job in batches:
        first, last = (int(job["metrics"][f"messaging.kafka.{which}_offset"]) for which in ("first", "last"))
        if first < last:
            links = [link["span_id"] for link in job["span_links"]]
            assert links == [sent[offset] for offset in range(first, last + 1)]
    assert len(singles) == 20
    senders = {span["span_id"]: span for span in named(agent, "send")}
    for job in singles:
        sender = senders[job["parent_id"]]
        assert sender["span_id"] == sent[int(job["metrics"]["messaging.kafka.first_offset"])]
        assert (job["trace_id"], upper_half(job)) == (sender["trace_id"], upper_half(sender))
        assert job["meta"]["messaging.destination.name"] == topic
    steps = named(agent, "db.insert") + named(agent, "db.update")
    assert len(steps) == len(jobs)
    assert all(step["trace_id"] == jobs[step["parent_id"]]["trace_id"] for step in steps)


@pytest.mark.usefixtures("clear")
def test_a_job_is_kept_or_not_with_all_that_belongs_to_it(kafka: KafkaCluster, agent: Agent, topic: str) -> None:
    kafka.create_topic(topic)
    rates = json.dumps({"service:,env:": 1.0, "service:orders,env:test": 0.5})
    agent.ask("/test/session/start?agent_sample_rate_by_service=" + urllib.parse.quote(rates))
    tracer = Tracer("orders", env="test", agent=agent.url, messages=True)
    tracer.start("learn").finish()
    assert tracer.flush(30)
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for number in range(60):
            producer.produce(topic, b"%d" % number, partition=0)
        producer.flush()
    priorities: dict[int, bytes] = {}
    app = grete.App(topic, kafka={"bootstrap.servers": kafka.bootstrap_servers})
    app.monitor.subscribe(tracer)

    @app.consumer(topic, max_messages=1)
    def handle(message: grete.Message) -> None:
        with tracer.start("call") as span:
            headers = dict(tracer.headers(span))
            priorities[span.span_id] = headers["x-datadog-sampling-priority"]

    with app.running():
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60, "done")
    jobs = {job["trace_id"]: job["metrics"]["_sampling_priority_v1"] for job in named(agent, "kafka.consume")}
    calls = named(agent, "call")
    assert len(jobs) == len(calls) == len(named(agent, "kafka.process")) == 60
    # A call passes its job's sampling decision on to the next service.
    assert all(int(priorities[call["span_id"]]) == jobs[call["trace_id"]] for call in calls)
    counts = Counter(jobs.values())
    assert counts[0] > 5
    assert counts[1] > 5


@pytest.mark.usefixtures("clear")
def test_nodes_of_a_swarm_trace_what_they_do(kafka: KafkaCluster, agent: Agent, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, partitions=4)
    environment = {
        "TRACED_AGENT": f"unix://{agent.socket}",
        "TRACED_SERVERS": kafka.bootstrap_servers,
        "TRACED_TOPIC": topic,
    }
    with SwarmRun("tests.integration.apps.traced:app", tmp_path, environment, nodes=2) as run:
        run.until_ready()
        with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
            for number in range(200):
                producer.produce(topic, b"%d" % number, partition=number % 4)
            producer.flush()
        run.until(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "everything is processed and committed")
        assert run.stop() == 0, run.output
    # The nodes' end has sent the last of them.
    jobs, records, steps = (named(agent, name) for name in ("kafka.consume", "kafka.process", "db.insert"))
    assert len(records) == len(steps) == 200
    assert {step["parent_id"] for step in steps} == {record["span_id"] for record in records}
    assert {record["parent_id"] for record in records} == {job["span_id"] for job in jobs}
    assert len({job["metrics"]["process_id"] for job in jobs}) == 2
