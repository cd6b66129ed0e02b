"""The examples do on a broker what they say."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

import grete
from examples import accounts, enrich, observe, orders, swarm
from grete.instrumentation.dogstatsd import DogStatsD
from tests.integration.app_in_process import dead_letters, header, running, until_done
from tests.integration.producers import producer, values
from tests.kafka import KafkaCluster
from tests.unit.fake_dogstatsd import agent

pytestmark = pytest.mark.kafka


def prepare(kafka: KafkaCluster, app: grete.App, *topics: str) -> None:
    for topic in topics:
        kafka.create_topic(topic, partitions=1)
    app.override({}, {"bootstrap.servers": kafka.bootstrap_servers, "auto.commit.interval.ms": "200"})


def write(kafka: KafkaCluster, topic: str, *records: tuple[bytes, bytes | None]) -> None:
    with producer(kafka.bootstrap_servers) as target:
        target.produce_many(topic, list(records), partition=0).wait(30)


def errors(kafka: KafkaCluster, topic: str) -> list[tuple[bytes | None, str]]:
    return [(message.value, header(message, "grete.error.class")) for message in dead_letters(kafka, topic)]


def test_orders(kafka: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    prepare(kafka, orders.app, "orders", "orders.dlq", "clicks")
    good: list[tuple[bytes, bytes | None]] = [(b"ada", b'{"amount": 3}'), (b"ada", None), (b"ada", b'{"amount": 4}')]
    write(kafka, "orders", *good, (b"ada", b'{"amount": "three"}'), (b"ada", b'{"amount": -1}'), *good)
    write(kafka, "clicks", (b"a", b"click"), (b"b", b"click"))
    with running(orders.app):
        until_done(kafka, orders.app, "orders", "clicks")
    assert "orders[0]: [('ada', 14)]" in caplog.text
    assert "clicks up to offset 1" in caplog.text
    assert errors(kafka, "orders.dlq") == [
        (b'{"amount": "three"}', "grete.errors.DecodeError"),
        (b'{"amount": -1}', "grete.errors.Reject"),
    ]


def test_swarm_in_one_process(kafka: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    prepare(kafka, swarm.app, "baskets")
    write(kafka, "baskets", (b"ada", b'{"items": [1, 2, 1000001]}'), (b"ada", None))
    with running(swarm.app):
        until_done(kafka, swarm.app, "baskets")
    total = 2 * swarm.prices[1] + swarm.prices[2]
    assert "node None takes baskets[0]" in caplog.text
    assert f"b'ada': {total:.2f}, at risk 0.0" in caplog.text


def test_enrich(kafka: KafkaCluster) -> None:
    prepare(kafka, enrich.app, "signups", "signups.dlq", "members")
    records: list[Any] = [
        (b"k%d" % at, json.dumps({"name": f"n{at}", "country": "GB" if at % 5 else "XX"}).encode()) for at in range(20)
    ]
    write(kafka, "signups", *records)
    with running(enrich.app):
        until_done(kafka, enrich.app, "signups")
    made = sorted(
        (json.loads(value or b"") for value in values(kafka, "members")), key=lambda made: int(made["name"][1:])
    )
    assert made == [{"name": f"n{at}", "country": "GB", "currency": "GBP"} for at in range(20) if at % 5]
    assert [kind for _, kind in errors(kafka, "signups.dlq")] == ["KeyError"] * 4


def test_accounts(kafka: KafkaCluster) -> None:
    prepare(kafka, accounts.app, "movements", "movements.dlq")
    records = [(b"a%d" % (at % 10), b"%d" % step) for at, step in enumerate([5] * 10 + [-5] * 10 + [7] * 10)]
    write(kafka, "movements", *records, (b"a0", b"-8"), (b"a1", b"much"))
    with running(accounts.app):
        until_done(kafka, accounts.app, "movements")
    assert accounts.balances == {f"a{at}": 7 for at in range(10)}
    assert sorted(errors(kafka, "movements.dlq")) == [
        (b"-8", "grete.errors.Reject"),
        (b"much", "grete.errors.DecodeError"),
    ]


def test_observe(kafka: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    prepare(kafka, observe.app, "payments", "payments.dlq")
    write(kafka, "payments", (b"ada", b'{"amount": 3}'), (b"ada", b'{"amount": -1}'), (b"ada", b'{"amount": 4}'))
    with agent() as datadog:
        listener = DogStatsD(datadog.address)
        observe.app.monitor.subscribe(listener)
        with running(observe.app):
            until_done(kafka, observe.app, "payments")
        observe.app.monitor.unsubscribe(listener)
        lines = datadog.take()
    sums = {
        name: sum(sum(line.values) for line in lines if line.name == name) for name in {line.name for line in lines}
    }
    assert (sums["grete.records"], sums["grete.dead_letters"], sums["grete.job_failures"]) == (2, 1, 1)
    times = [line for line in lines if line.name == "grete.handler.duration_seconds"]
    assert {line.tags["result"]: len(line.values) for line in times} == {"ok": 1, "error": 1}
    assert errors(kafka, "payments.dlq") == [(b'{"amount": -1}', "grete.errors.Reject")]
    own = [record for record in caplog.records if record.name == "observe-example"]
    assert [record.getMessage() for record in own if record.levelno == logging.ERROR] == [
        "charge has given up offset 1 of payments[0]"
    ]
    assert own[-1].getMessage() == "charged 7 so far; 0 records wait, 0 of 2 workers are busy"
    jobs = [record for record in caplog.records if record.name == "grete.jobs"]
    assert {record.__dict__["handler"] for record in jobs} == {"charge"}
    done = [record.__dict__ for record in jobs if record.__dict__["event"] == "job.finished"]
    assert [fields["error"] for fields in done] == ["Reject: a payment of -1", None]
    assert done[-1]["last_offset"] == 2
