"""The examples do on a broker what they say."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

import grete
from examples import accounts, enrich, orders
from tests.integration.apprunning import dead_letters, header, running, until_done
from tests.integration.producing import producer, values
from tests.kafka import KafkaCluster

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
