"""Exactly-once jobs beside retries with a backoff, rate limits, dead letters, static members and forks."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter

import pytest

import grete
from grete._processing.transactional_id import TransactionalId
from grete.client import Admin
from tests.integration.app_in_process import dead_letters, make, running, until_done
from tests.integration.exactly_once.reading import committed, fill
from tests.kafka import KafkaCluster, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


def value_of(message: grete.Message) -> bytes | None:
    return message.value


def open_transactions(kafka: KafkaCluster, group: str) -> list[str]:
    """Ids of the group whose transaction is open."""
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        found = [one for one in admin.transactions() if one.transactional_id.startswith(group)]
        return [one.transactional_id for one in found if one.state not in ("Empty", "CompleteCommit", "CompleteAbort")]


def states(app: grete.App) -> list[str]:
    return [row["state"] for row in app.statistics()["transactions"]]


def test_a_backoff_holds_no_transaction_open(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"a", b"b", b"bad"])
    app = make(kafka, group, exactly_once=True, transaction_interval="20ms")
    failed, allowed = threading.Event(), threading.Event()

    @app.consumer(topic, concurrency="key", retry=grete.Retry(attempts=None, backoff="200ms"))
    def copy(message: grete.Message, producer: grete.Producer) -> None:
        producer.produce(target, message.value)
        if message.value == b"bad" and not allowed.is_set():
            failed.set()
            raise ValueError("not yet")

    with running(app):
        assert failed.wait(30)
        eventually(lambda: sorted(committed(kafka, target)) == [b"a", b"b"], 30, "the records before are committed")
        eventually(lambda: states(app) == ["idle"], 10, "nothing to commit")
        assert open_transactions(kafka, group) == []
        allowed.set()
        until_done(kafka, app, topic)
    assert sorted(committed(kafka, target)) == [b"a", b"b", b"bad"]


def test_a_rate_limit_holds_no_transaction_open(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"0", b"1"])
    app = make(kafka, group, exactly_once=True, transaction_interval="5ms")
    # The second record would be due after this test.
    app.consumer(topic, max_messages=1, rate_limit="1/min", publish=target)(value_of)
    with running(app):
        eventually(lambda: committed(kafka, target) == [b"0"], 30, "the first record is committed")
        eventually(lambda: states(app) == ["idle"], 10, "nothing to commit")
        assert open_transactions(kafka, group) == []
    assert committed(kafka, target) == [b"0"]


@pytest.mark.parametrize("batches", [False, True])
def test_async_handlers_that_fail_leave_one_dead_letter_each(
    kafka: KafkaCluster, topic: str, group: str, batches: bool
) -> None:
    values = [b"%02d" % number for number in range(40)]
    target = fill(kafka, topic, values, partitions=2)
    app = make(kafka, group, exactly_once=True, transaction_interval="20ms")
    settings = {"retry": grete.Retry(attempts=2, backoff="10ms"), "dead_letter": f"{topic}.dlq"}

    async def work(messages: list[grete.Message], producer: grete.Producer) -> None:
        for message in messages:
            producer.produce(target, message.value)
            if (message.value or b"").endswith(b"3"):
                raise grete.Reject("a three", message=message)

    if batches:

        @app.consumer(topic, max_messages=8, **settings)  # type: ignore[arg-type]
        async def batch(messages: grete.Messages, producer: grete.Producer) -> None:
            await work(list(messages), producer)

    else:

        @app.consumer(topic, concurrency="key", **settings)  # type: ignore[arg-type]
        async def one(message: grete.Message, producer: grete.Producer) -> None:
            await work([message], producer)

    with running(app):
        until_done(kafka, app, topic)
    bad = [value for value in values if value.endswith(b"3")]
    assert Counter(committed(kafka, target)) == Counter(value for value in values if value not in bad)
    assert Counter(committed(kafka, f"{topic}.dlq")) == Counter(bad)
    assert {letter.value for letter in dead_letters(kafka, f"{topic}.dlq")} == set(bad)


def test_static_members_have_the_ids_of_their_instances(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"a"])
    for _ in range(3):
        app = make(kafka, group, {"group.instance.id": "blue"}, exactly_once=True)
        app.consumer(topic, publish=target)(value_of)
        with running(app):
            until_done(kafka, app, topic)
            assert app.statistics()["transactions"][0]["transactional_id"] == f"{group}-blue"
    assert committed(kafka, target) == [b"a"]
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        ids = [one.transactional_id for one in admin.transactions() if one.transactional_id.startswith(group)]
    assert ids == [f"{group}-blue"]


def test_a_forked_child_does_not_keep_the_id(group: str) -> None:
    """The kernel drops the address with its last descriptor: a child that lives on must not have one."""
    mine = TransactionalId(group)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        theirs.sendall(b"x")
        theirs.recv(1)  # lives until the parent has tried
        os._exit(0)
    try:
        theirs.close()
        assert ours.recv(1) == b"x"
        other = TransactionalId(group)
        assert (mine.text, other.text) == (f"{group}-0", f"{group}-1"), "the parent keeps its own"
        mine.release()
        again = TransactionalId(group)
        assert again.text == f"{group}-0", "the child does not"
        for one in (other, again):
            one.release()
    finally:
        ours.close()
        os.waitpid(child, 0)
