"""Handlers of exactly-once routes, in all forms: each input is in the output once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, header, make, running, until_done
from tests.integration.exactly_once.reading import committed, committed_records, fill
from tests.kafka import KafkaCluster, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

VALUES = [b"%04d" % number for number in range(400)]
Register = Callable[[grete.App, str, str], None]


def as_class(app: grete.App, topic: str, target: str, **settings: Any) -> None:
    @app.consumer(topic, **settings)
    class Copies(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                self.producer.produce(target, message.value, key=message.key)


def as_batch(app: grete.App, topic: str, target: str, **settings: Any) -> None:
    @app.consumer(topic, max_messages=30, **settings)
    def copy(messages: grete.Messages, producer: grete.Producer) -> None:
        producer.produce_many(target, [(message.key, message.value) for message in messages])


def as_function(app: grete.App, topic: str, target: str, **settings: Any) -> None:
    @app.consumer(topic, publish=target, **settings)
    def copy(message: grete.Message) -> bytes:
        return message.value or b""


def as_json(app: grete.App, topic: str, target: str, **settings: Any) -> None:
    @app.consumer(topic, payload=bytes, publish=target, **settings)
    def copy(value: bytes) -> bytes:
        return value


def as_coroutine(app: grete.App, topic: str, target: str, **settings: Any) -> None:
    @app.consumer(topic, publish=target, **settings)
    async def copy(message: grete.Message) -> bytes:
        return message.value or b""


def as_async_batch(app: grete.App, topic: str, target: str, **settings: Any) -> None:
    @app.consumer(topic, max_messages=30, **settings)
    async def copy(messages: grete.Messages, producer: grete.Producer) -> None:
        for message in messages:
            producer.produce(target, message.value, key=message.key)


def with_app_producer(app: grete.App, topic: str, target: str, **settings: Any) -> None:
    @app.consumer(topic, **settings)
    def copy(message: grete.Message) -> None:
        app.producer.produce(target, message.value, key=message.key)


@pytest.mark.parametrize("concurrency", ["partition", "key", "unordered"])
@pytest.mark.parametrize(
    "register",
    [as_class, as_batch, as_function, as_json, as_coroutine, as_async_batch, with_app_producer],
    ids=lambda register: register.__name__,
)
def test_each_record_is_in_the_output_once(
    kafka: KafkaCluster, topic: str, group: str, register: Register, concurrency: str
) -> None:
    target = fill(kafka, topic, VALUES, partitions=2)
    app = make(kafka, group, exactly_once=True, transaction_interval="20ms")
    register(app, topic, target, concurrency=concurrency)  # type: ignore[call-arg]
    with running(app):
        until_done(kafka, app, topic)
        (state,) = app.statistics()["transactions"]
        assert (state["group"], state["records"], state["aborted"]) == (group, len(VALUES), 0)
        assert state["committed"] >= 1
        assert state["staged_bytes"] == 0
        eventually(lambda: app.statistics()["transactions"][0]["state"] == "idle", 10, "nothing to commit")
        exposed = app.metrics()
        assert f'grete_transactions_total{{group="{group}"}}' in exposed
        assert f'grete_aborted_transactions_total{{group="{group}"}} 0' in exposed
    assert sorted(committed_records(kafka, target)) == [(value, value) for value in VALUES]


def test_a_handler_that_raises_takes_back_what_it_has_produced(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"a", b"bad", b"c"])
    app = make(kafka, group)
    runs: list[bytes] = []

    @app.consumer(topic, exactly_once=True, retry=FAST, dead_letter=f"{topic}.dlq")
    def copy(message: grete.Message, producer: grete.Producer) -> None:
        value = message.value or b""
        runs.append(value)
        producer.produce(target, value + b"-1")
        producer.produce(target, value + b"-2")
        if value == b"bad":
            raise ValueError("not this one")

    with running(app):
        until_done(kafka, app, topic)
    assert committed(kafka, target) == [b"a-1", b"a-2", b"c-1", b"c-2"]
    (letter,) = dead_letters(kafka, f"{topic}.dlq")
    assert (letter.value, header(letter, "grete.error.message")) == (b"bad", "not this one")
    assert committed(kafka, f"{topic}.dlq") == [b"bad"]
    assert runs == [b"a", b"bad", b"bad", b"bad", b"c"], "the others run once"


def test_a_batch_that_raises_runs_again_alone(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, VALUES[:20])
    app = make(kafka, group, exactly_once=True)
    runs: list[int] = []

    @app.consumer(topic, max_messages=5, retry=FAST)
    def copy(messages: grete.Messages, producer: grete.Producer) -> None:
        for message in list(messages):
            producer.produce(target, message.value)
        runs.append(messages.first_offset)
        if runs.count(messages.first_offset) < 2:
            raise ValueError("not yet")

    with running(app):
        until_done(kafka, app, topic)
    assert committed(kafka, target) == VALUES[:20]


def test_nothing_is_sent_while_a_handler_runs(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"a"])
    app = make(kafka, group, exactly_once=True)
    entered, go_on = threading.Event(), threading.Event()
    deliveries: list[Any] = []
    errors: list[str] = []

    @app.consumer(topic)
    class Waits(grete.Consumer):
        def consume(self) -> None:
            (message,) = self.messages
            deliveries.append(self.producer.produce(target, message.value))
            deliveries.append(self.producer.produce_many(target, [b"b", b"c"]))
            for wait in (
                lambda: deliveries[0].wait(1.0),
                lambda: deliveries[1].wait(1.0),
                lambda: self.producer.produce_sync(target, b"x"),
                lambda: self.producer.produce(target, b"x", on_delivery=print),
                lambda: self.producer.flush(),
                lambda: self.mark(message, sync=True),
            ):
                try:
                    wait()
                except grete.TransactionStateError as error:
                    errors.append(str(error))
            entered.set()
            assert go_on.wait(30)

    with running(app):
        assert entered.wait(30)
        assert [deliveries[0].done, deliveries[0].outcome, repr(deliveries[0])] == [
            False,
            None,
            f"<Delivery {target}, staged>",
        ]
        assert kafka.admin.end_offsets(target) == {0: 0}
        go_on.set()
        until_done(kafka, app, topic)
        eventually(lambda: deliveries[0].outcome == "written", 10, "the outcome after the commit")
        assert [one.outcome for one in deliveries[1]] == ["written", "written"]
    assert committed(kafka, target) == [b"a", b"b", b"c"]
    assert len(errors) == 6
    assert all("do not wait" in error or "without sync" in error for error in errors)


def test_outside_of_a_job_the_apps_producer_has_no_transaction(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [])
    app = make(kafka, group, exactly_once=True)
    as_class(app, topic, target)
    with running(app):
        assert app.producer.produce_sync(target, b"outside").offset == 0
    assert committed(kafka, target) == [b"outside"]


def test_several_transactions_follow_each_other(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [])
    app = make(kafka, group, exactly_once=True, transaction_interval="1ms")
    as_class(app, topic, target)
    with running(app):
        for start in range(0, 50, 10):
            app.producer.produce_many(topic, VALUES[start : start + 10]).wait(30)
            until_done(kafka, app, topic)
        assert app.statistics()["transactions"][0]["committed"] >= 5
    assert committed(kafka, target) == VALUES[:50]


def test_more_than_the_memory_holds(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"%d" % number for number in range(40)])
    app = make(kafka, group, {"buffer.memory": 1 << 20}, exactly_once=True, transaction_interval="30s", workers=1)
    refused: list[str] = []

    @app.consumer(topic, max_messages=4)
    def copy(messages: grete.Messages, producer: grete.Producer) -> None:
        for message in messages:
            producer.produce(target, (message.value or b"") + b"x" * 60_000)

    with running(app):
        until_done(kafka, app, topic)
    assert [value.rstrip(b"x") for value in committed(kafka, target)] == [b"%d" % number for number in range(40)]
    assert refused == []


def test_one_job_with_too_much(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"a"])
    app = make(kafka, group, {"buffer.memory": 1 << 20}, exactly_once=True)

    @app.consumer(topic, retry=grete.Retry(attempts=1), dead_letter=f"{topic}.dlq")
    def flood(message: grete.Message, producer: grete.Producer) -> None:
        for _ in range(40):
            producer.produce(target, b"x" * 60_000)

    with running(app):
        until_done(kafka, app, topic)
    (letter,) = dead_letters(kafka, f"{topic}.dlq")
    assert header(letter, "grete.error.class").endswith("BufferFullError")
    assert "buffer.memory" in header(letter, "grete.error.message")
    assert committed(kafka, target) == []


def test_a_record_that_no_broker_takes_fails_its_job_and_no_other(kafka: KafkaCluster, topic: str, group: str) -> None:
    fill(kafka, topic, [])
    target = f"{topic}.small"
    kafka.create_topic(target, partitions=1, config={"max.message.bytes": "1000"})
    values = [b"a", b"b", b"x" * 5000, b"c", b"d"]
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.produce_many(topic, values).wait(30)
    app = make(kafka, group, exactly_once=True)

    @app.consumer(topic, retry=FAST, dead_letter=f"{topic}.dlq")
    def copy(message: grete.Message, producer: grete.Producer) -> None:
        producer.produce(target, message.value)

    with running(app):
        until_done(kafka, app, topic)
        (state,) = app.statistics()["transactions"]
        assert state["aborted"] >= 1
    assert committed(kafka, target) == [b"a", b"b", b"c", b"d"]
    # Readers of uncommitted records see that of the trial, too.
    letter = dead_letters(kafka, f"{topic}.dlq")[-1]
    assert (letter.value, header(letter, "grete.error.class").rpartition(".")[2]) == (values[2], "DeliveryError")
    assert committed(kafka, f"{topic}.dlq") == [values[2]]


def test_a_topic_that_does_not_exist_fails_the_handler(kafka: KafkaCluster, topic: str, group: str) -> None:
    fill(kafka, topic, [b"a"])
    app = make(kafka, group, exactly_once=True)

    @app.consumer(topic, retry=grete.Retry(attempts=1), dead_letter=f"{topic}.dlq")
    def copy(message: grete.Message, producer: grete.Producer) -> None:
        producer.produce(f"{topic}.missing", message.value)

    with running(app):
        until_done(kafka, app, topic)
    (letter,) = dead_letters(kafka, f"{topic}.dlq")
    assert header(letter, "grete.error.class").endswith("UnknownTopicError")


def test_another_process_with_the_same_id_ends_the_app(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [b"a"])
    app = make(kafka, group, exactly_once=True)
    as_class(app, topic, target)
    app.start()
    try:
        until_done(kafka, app, topic)
        own = app.statistics()["transactions"][0]["transactional_id"]
        assert own.startswith(f"{group}-")
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": own}
        with grete.client.Producer(settings) as other:
            other.init_transactions()
            app.producer.produce_sync(topic, b"b")
            eventually(lambda: app.error is not None, 30, "the end of the App")
    finally:
        with pytest.raises(grete.FencedError, match="another producer has started with the same"):
            app.stop()
    assert committed(kafka, target) == [b"a"]
    again = make(kafka, group, exactly_once=True)
    as_class(again, topic, target)
    with running(again):
        until_done(kafka, again, topic)
    assert committed(kafka, target) == [b"a", b"b"]


def test_two_apps_on_one_host_have_two_ids(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = fill(kafka, topic, [])
    apps = [make(kafka, group, {"transactional.id": "prefix"}, exactly_once=True) for _ in range(2)]
    for app in apps:
        as_class(app, topic, target)
    with running(apps[0]), running(apps[1]):
        ids = {app.statistics()["transactions"][0]["transactional_id"] for app in apps}
        assert ids == {f"prefix-{group}-0", f"prefix-{group}-1"}
    third = make(kafka, group, {"transactional.id": "prefix"}, exactly_once=True)
    as_class(third, topic, target)
    with running(third):
        assert third.statistics()["transactions"][0]["transactional_id"] == f"prefix-{group}-0"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"offsets": "at_most_once"}, "before the handler runs"),
        ({"offset_map": True, "concurrency": "key"}, "leave offset_map out"),
        ({"partitions": [0]}, "needs the group's generations"),
    ],
)
def test_what_cannot_work_together_is_refused_where_it_is_declared(settings: dict[str, Any], message: str) -> None:
    app = grete.App("refused")
    with pytest.raises(grete.ConfigError, match=message):

        @app.consumer("orders", exactly_once=True, **settings)
        def copy(message: grete.Message) -> None:
            pass


def test_contradictions_of_the_settings_are_refused(topic: str) -> None:
    app = grete.App("refused", kafka={"bootstrap.servers": "any:1", "isolation.level": "read_uncommitted"})

    @app.consumer("orders", exactly_once=True)
    def copy(message: grete.Message) -> None:
        pass

    with pytest.raises(grete.ConfigError, match=r"read_uncommitted .*reads committed records only"):
        app.groups(app.settings())
    mixed = grete.App("mixed", kafka={"bootstrap.servers": "any:1"})

    @mixed.consumer("orders", exactly_once=True)
    def first(message: grete.Message) -> None:
        pass

    @mixed.consumer("returns")
    def second(message: grete.Message) -> None:
        pass

    with pytest.raises(grete.ConfigError, match="first is exactly once and second is not"):
        mixed.groups(mixed.settings())
