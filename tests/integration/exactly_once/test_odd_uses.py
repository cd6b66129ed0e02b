"""Exactly-once routes beside all that can be combined with them, and beside what should not happen to them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import grete
import grete.client
from grete.broker import Broker
from tests.integration.app_in_process import dead_letters, make, running, until_done
from tests.integration.app_process import AppRun
from tests.integration.exactly_once.reading import committed, fill
from tests.integration.exactly_once.test_more_jobs import value_of
from tests.integration.exactly_once.test_processes import APP, COUNT, VALUES, check_output, environment, progress
from tests.integration.frame_proxy import FrameAction, FrameProxy, always
from tests.integration.test_failed_partitions import events
from tests.kafka import KafkaCluster, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
END_TXN = 26


@pytest.mark.parametrize("concurrency", ["partition", "key", "unordered"])
def test_all_settings_at_once(kafka: KafkaCluster, topic: str, group: str, concurrency: str) -> None:
    """Deduplication, retries with a backoff, a rate limit, dead letters, coroutines, hooks and a restart."""
    target = fill(kafka, topic, [])
    values = [b"%03d" % (number // 2) for number in range(80)]
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for value in values:
            producer.produce(topic, value, key=value, headers=[("id", value)])
    ended: list[int] = []
    ticked: list[int] = []
    for run in range(2):
        app = make(kafka, group, exactly_once=True, transaction_interval="30ms")

        @app.consumer(
            topic,
            concurrency=concurrency,  # type: ignore[arg-type]
            dedup="header:id",
            max_messages=5,
            rate_limit="400/s",
            retry=grete.Retry(attempts=3, backoff="5ms..20ms"),
            dead_letter=f"{topic}.dlq",
            tick="10ms",
        )
        class Copies(grete.Consumer):
            async def consume(self) -> None:
                for message in self.messages:
                    value = message.value or b""
                    self.producer.produce(target, value)
                    if value.endswith(b"3"):
                        raise grete.Reject("a three", message=message)
                    if value.endswith(b"5") and self.attempt == 1:
                        raise ValueError("fails once")

            async def eof(self) -> None:
                ended.append(run)  # noqa: B023

            async def tick(self) -> None:
                ticked.append(run)  # noqa: B023

        with running(app):
            if run == 1:
                with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
                    for value in [*values[:6], b"new"]:
                        producer.produce_sync(topic, value, headers=[("id", value)])
            until_done(kafka, app, topic)
            # The run may have been done before its first tick.
            eventually(lambda: run in ended and run in ticked, 30.0, "the end and a tick")  # noqa: B023
    wanted = Counter({*values, b"new"})
    bad = Counter(value for value in wanted if value.endswith(b"3"))
    assert Counter(committed(kafka, target)) == wanted - bad
    assert Counter(letter.value for letter in dead_letters(kafka, f"{topic}.dlq")) == bad


def test_hooks_without_records_produce_in_transactions_too(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"a"])
    app = make(kafka, group, exactly_once=True, transaction_interval="10ms")

    @app.consumer(topic, tick="50ms")
    class Copies(grete.Consumer):
        ticks = 0

        def consume(self) -> None:
            for message in self.messages:
                self.producer.produce(target, message.value)

        def eof(self) -> None:
            self.producer.produce(target, b"eof")

        def tick(self) -> None:
            self.ticks += 1
            if self.ticks <= 3:
                self.producer.produce(target, b"tick")

    with running(app):
        until_done(kafka, app, topic)
        eventually(
            lambda: Counter(committed(kafka, target))[b"tick"] == 3 and b"eof" in committed(kafka, target),
            30,
            lambda: f"{committed(kafka, target)} {app.statistics()['transactions']}",
        )
    assert Counter(committed(kafka, target)) == {b"a": 1, b"eof": 1, b"tick": 3}


def test_an_output_topic_that_is_deleted_and_made_again(kafka: KafkaCluster, topic: str, group: str) -> None:
    values = [b"%03d" % number for number in range(200)]
    target = fill(kafka, topic, values)
    app = make(kafka, group, exactly_once=True, transaction_interval="20ms")
    go_on, reached = threading.Event(), threading.Event()

    @app.consumer(topic, max_messages=10, publish=target, retry=grete.Retry(attempts=None, backoff="50ms"))
    def copy(message: grete.Message) -> bytes | None:
        if message.value == b"100":
            reached.set()
            assert go_on.wait(60)
        return message.value

    with running(app):
        assert reached.wait(30)
        eventually(lambda: len(committed(kafka, target)) >= 50, 30, "some records")
        kafka.admin.delete_topic(target)
        go_on.set()
        eventually(lambda: kafka.admin.lag(group, [topic]) <= 150, 10, "the commits before")
        kafka.create_topic(target)
        until_done(kafka, app, topic)
    found = committed(kafka, target)
    assert len(found) == len(set(found)), "nothing twice"
    assert set(found) >= set(values[110:]), "all that was produced after the topic was made again"


def test_a_handler_that_forks(kafka: KafkaCluster, topic: str, group: str) -> None:
    """The child cannot use the producer; its end aborts nothing."""
    values = [b"%02d" % number for number in range(20)]
    target = fill(kafka, topic, values)
    app = make(kafka, group, exactly_once=True, transaction_interval="20ms")
    statuses: list[int] = []

    @app.consumer(topic, max_messages=1)
    def copy(message: grete.Message, producer: grete.Producer) -> None:
        producer.produce(target, message.value)
        child = os.fork()
        if child == 0:
            try:
                producer.produce(target, b"of the child")
            except BaseException:
                os._exit(3)
            os._exit(0)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with running(app):
        until_done(kafka, app, topic)
    assert committed(kafka, target) == values
    assert set(statuses) == {3}, "each child is refused"


def test_a_process_that_is_stopped_for_longer_than_its_transaction_may_take(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    fill(kafka, topic, VALUES, partitions=2, outputs=2)
    own = environment(kafka, topic, group, session=30_000, transaction_timeout=1000)
    with AppRun(APP, tmp_path, own) as app:
        for goal in (50, 150, 250, 350):
            app.until(lambda goal=goal: progress(kafka, topic, group) >= goal, 60, f"{goal} records")  # type: ignore[misc]
            os.kill(app.pid, signal.SIGSTOP)
            # The coordinator's clock is what is waited for.
            time.sleep(2.0)
            os.kill(app.pid, signal.SIGCONT)
        app.until(lambda: progress(kafka, topic, group) == COUNT, 90, "all records")
        assert app.stop() == 0
    check_output(kafka, topic)


def test_results_into_the_topic_that_is_read(kafka: KafkaCluster, topic: str, group: str) -> None:
    fill(kafka, topic, [b"0", b"10"])
    app = make(kafka, group, exactly_once=True, transaction_interval="10ms")

    @app.consumer(topic, max_messages=1)
    def count(message: grete.Message, producer: grete.Producer) -> None:
        number = int(message.value or b"0")
        if number % 10 < 5:
            producer.produce(topic, b"%d" % (number + 1))

    with running(app):
        eventually(lambda: len(committed(kafka, topic)) == 12, 60, lambda: f"{committed(kafka, topic)}")
        until_done(kafka, app, topic)
    assert sorted(map(int, committed(kafka, topic))) == [*range(6), *range(10, 16)]


def test_a_route_without_exactly_once_asks_for_no_transaction() -> None:
    """Beside one with it: each has the requests of its own group only."""
    transactional = {"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"}
    asked: dict[bool, set[str]] = {}
    for exactly_once in (False, True):
        with Broker(topics=["orders", "invoices"]) as broker:
            servers = {"bootstrap.servers": broker.bootstrap_servers}
            with grete.client.Producer(servers) as producer:
                producer.produce_many("orders", [b"%d" % number for number in range(100)]).wait(30)
            app = grete.App("plain", kafka=servers | {"auto.commit.interval.ms": 50}, exactly_once=exactly_once)
            app.consumer("orders", publish="invoices")(value_of)
            with running(app):
                eventually(lambda: broker.committed("plain") == {("orders", 0): 100}, 30, "all committed")
                states = app.statistics()["transactions"]
            asked[exactly_once] = {one.api for one in broker.requests()} & transactional
            assert bool(states) == exactly_once
    assert asked[False] == set()
    assert asked[True] >= {"TxnOffsetCommit", "EndTxn"}


def test_a_commit_that_does_not_end_has_one_line(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    """Each EndTxn request ends its connection. The line says which request is repeated, before one succeeds."""
    source = f"{topic}-source"
    target = fill(broker, source, [b"a"])
    app = make(broker, topic, exactly_once=True, transaction_interval="10ms")
    pending = events(app, "transaction.pending")

    @app.consumer(source)
    def copy(message: grete.Message) -> None:
        app.producer.produce(target, message.value)

    proxy.treat(requests=always(FrameAction.DISCONNECT), api=END_TXN)
    with running(app):
        proxy.wait_requests(4)
        eventually(lambda: len(pending) == 1, 30.0, "the line")
        assert pending[0]["transactional_id"]
        proxy.treat()
        until_done(broker, app, source)
        assert len(pending) == 1
    assert committed(broker, target) == [b"a"]
