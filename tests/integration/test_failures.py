"""What fails in a handler on a real broker: retried, searched for, dead-lettered, never skipped."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, header, make, running, until_done
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually

pytestmark = pytest.mark.kafka

BAD = b"bad"


def write(kafka: KafkaCluster, topic: str, values: list[bytes], **more: Any) -> None:
    kafka.create_topic(topic, partitions=1)
    with producer(kafka.bootstrap_servers) as target:
        target.produce_many(topic, values, partition=0, **more).wait(30)


def with_bad(count: int, *bad: int) -> list[bytes]:
    return [BAD if at in bad else b"%d" % at for at in range(count)]


@pytest.fixture
def dlq(kafka: KafkaCluster, topic: str) -> str:
    name = f"{topic}.dlq"
    kafka.create_topic(name, partitions=1)
    return name


def by_rows(messages: grete.Messages) -> None:
    for message in messages:
        if message.value == BAD:
            raise ValueError("bad by rows")


def by_columns(messages: grete.Messages) -> None:
    if BAD in messages.values():
        raise ValueError("bad by columns")


def one_by_one(message: grete.Message) -> None:
    if message.value == BAD:
        raise ValueError("bad one by one")


async def by_rows_async(messages: grete.Messages) -> None:
    by_rows(messages)


async def one_by_one_async(message: grete.Message) -> None:
    one_by_one(message)


@pytest.mark.parametrize("handler", [by_rows, by_columns, one_by_one, by_rows_async, one_by_one_async])
@pytest.mark.parametrize("concurrency", ["partition", "key", "unordered"])
def test_only_the_bad_record_is_dead_lettered(
    kafka: KafkaCluster, topic: str, group: str, dlq: str, handler: Callable[..., object], concurrency: Any
) -> None:
    write(kafka, topic, with_bad(40, 17, 18, 33), key=b"k")
    app = make(kafka, group)
    app.consumer(topic, concurrency=concurrency, retry=FAST, dead_letter=dlq)(handler)
    with running(app):
        until_done(kafka, app, topic)
        assert app.statistics()["counts"]["dead_letters"] == 3
    dead = dead_letters(kafka, dlq)
    assert sorted(int(header(message, "grete.source.offset")) for message in dead) == [17, 18, 33]
    for message in dead:
        assert (message.key, message.value) == (b"k", BAD)
        assert header(message, "grete.source.topic") == topic
        assert header(message, "grete.source.partition") == "0"
        assert header(message, "grete.source.group") == group
        assert int(header(message, "grete.attempts")) >= 3
        assert header(message, "grete.error.class") == "ValueError"
        assert header(message, "grete.error.message").startswith("bad ")
        assert header(message, "grete.failed.first") <= header(message, "grete.failed.last")


def test_a_retry_that_succeeds_repeats_nothing_else(kafka: KafkaCluster, topic: str, group: str) -> None:
    write(kafka, topic, with_bad(20, 7))
    calls: Counter[int] = Counter()

    def handler(message: grete.Message) -> None:
        calls[message.offset] += 1
        if message.value == BAD and calls[message.offset] < 3:
            raise ValueError("not yet")

    app = make(kafka, group)
    app.consumer(topic, retry=FAST)(handler)
    with running(app):
        until_done(kafka, app, topic)
    assert calls == {offset: 3 if offset == 7 else 1 for offset in range(20)}


def test_without_a_dead_letter_topic_nothing_is_skipped(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(kafka, topic, with_bad(10, 4))
    attempts: list[int] = []

    class Strict(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                if message.value == BAD:
                    attempts.append(self.attempt)
                    raise grete.Reject("never") if len(attempts) % 2 else ValueError("no")
                self.mark(message)

    app = make(kafka, group)
    app.consumer(topic, retry=FAST)(Strict)
    with running(app):
        eventually(lambda: len(attempts) > 6, 30.0, "far more than the attempts")
    assert attempts[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert kafka.admin.committed(group) == {(topic, 0): 4}
    assert "nothing is skipped" in caplog.text


def test_a_payload_that_does_not_decode_is_dead_lettered_alone(
    kafka: KafkaCluster, topic: str, group: str, dlq: str
) -> None:
    write(kafka, topic, [b'{"at": %d}' % at if at != 5 else b"{" for at in range(10)])
    seen: list[int] = []

    def handler(payload: dict) -> None:  # type: ignore[type-arg]
        seen.append(payload["at"])

    app = make(kafka, group)
    app.consumer(topic, payload="json", retry=FAST, dead_letter=dlq)(handler)
    with running(app):
        until_done(kafka, app, topic)
    assert seen == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    (dead,) = dead_letters(kafka, dlq)
    assert header(dead, "grete.error.class") == "grete.errors.DecodeError"
    assert header(dead, "grete.source.offset") == "5"


def test_reject_and_what_is_never_retried_go_at_once(kafka: KafkaCluster, topic: str, group: str, dlq: str) -> None:
    write(kafka, topic, with_bad(10, 2, 6))
    calls: Counter[int] = Counter()

    class Strict(grete.Consumer):
        def consume(self) -> None:
            for message in list(self.messages):  # the iteration has ended: only the error names the record
                if message.value == BAD:
                    calls[message.offset] += 1
                    if message.offset == 2:
                        raise grete.Reject("bad", message=message)
                    raise LookupError("never")
                self.mark(message)

    app = make(kafka, group)
    retry = grete.Retry(attempts=50, backoff="10ms", never=LookupError)
    app.consumer(topic, retry=retry, dead_letter=dlq)(Strict)
    with running(app):
        until_done(kafka, app, topic)
    assert calls[2] == 1
    assert calls[6] <= 5, "once for each half"
    dead = dead_letters(kafka, dlq)
    assert [header(message, "grete.source.offset") for message in dead] == ["2", "6"]
    assert header(dead[0], "grete.attempts") == "1"


def test_retry_later_counts_no_attempt(kafka: KafkaCluster, topic: str, group: str, dlq: str) -> None:
    write(kafka, topic, with_bad(5, 2))
    attempts: list[int] = []

    class Patient(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                if message.value == BAD:
                    attempts.append(self.attempt)
                    if len(attempts) < 8:
                        raise grete.RetryLater(0.02, "closed")
                self.mark(message)

    app = make(kafka, group)
    app.consumer(topic, retry=FAST, dead_letter=dlq)(Patient)
    with running(app):
        until_done(kafka, app, topic)
    assert attempts == [1] * 8
    assert dead_letters(kafka, dlq) == []


def test_a_missing_dead_letter_topic_holds_the_lane_loudly(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(kafka, topic, with_bad(10, 3))
    missing = f"{topic}.missing"
    app = make(kafka, group)
    app.consumer(topic, retry=FAST, dead_letter=missing)(one_by_one)

    def is_logged() -> bool:
        return any(record.__dict__.get("event") == "consumer.dead_letter" for record in caplog.records)

    with running(app):
        eventually(is_logged, 60.0, "the log says so")
        assert kafka.admin.committed(group).get((topic, 0), 0) <= 3
        kafka.create_topic(missing, partitions=1)
        until_done(kafka, app, topic)
    failures = [record for record in caplog.records if record.__dict__.get("event") == "consumer.dead_letter"]
    assert failures[0].levelno == logging.ERROR
    assert f"grete topics create {missing}" in failures[0].getMessage()
    assert [header(message, "grete.source.offset") for message in dead_letters(kafka, missing)] == ["3"]


def test_a_dead_letter_that_is_too_large_stays_and_says_so(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(kafka, topic, [b"small", b"x" * 20_000, b"small"])
    tight = f"{topic}.tight"
    kafka.create_topic(tight, partitions=1, config={"max.message.bytes": 1000})
    app = make(kafka, group)

    def handler(message: grete.Message) -> None:
        if message.offset == 1:
            raise ValueError("y" * 5000)

    app.consumer(topic, retry=FAST, dead_letter=tight)(handler)

    def logged_messages() -> list[str]:
        return [record.getMessage() for record in caplog.records if "max.message.bytes" in record.getMessage()]

    with running(app):
        eventually(lambda: len(logged_messages()) > 1, 60.0, "the log says so, again and again")
    assert kafka.admin.committed(group).get((topic, 0), 0) <= 1
    assert dead_letters(kafka, tight) == []


def test_at_most_once_without_a_dead_letter_topic_drops_loudly(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(kafka, topic, with_bad(10, 3))
    committed: list[dict[tuple[str, int], int]] = []
    calls: Counter[int] = Counter()

    def handler(messages: grete.Messages) -> None:
        committed.append(kafka.admin.committed(group))
        calls.update(messages.offsets)
        by_rows(messages)

    app = make(kafka, group)
    app.consumer(topic, offsets="at_most_once")(handler)
    with running(app):
        until_done(kafka, app, topic)
        eventually(lambda: sum(calls.values()) >= 10, 30.0, "all were handed out")
        eventually(lambda: "these records are lost" in caplog.text, 30.0, "the log says so")
    assert committed[0] == {(topic, 0): max(calls) + 1} or committed[0][topic, 0] >= 1
    assert set(calls.values()) == {1}


def test_an_initialize_that_fails_costs_no_record(kafka: KafkaCluster, topic: str, group: str, dlq: str) -> None:
    write(kafka, topic, with_bad(10))
    instances: list[grete.Consumer] = []
    attempts: list[int] = []

    class Slow(grete.Consumer):
        def initialize(self) -> None:
            instances.append(self)
            if len(instances) < 8:
                raise OSError("no database")

        def consume(self) -> None:
            attempts.append(self.attempt)

    app = make(kafka, group)
    app.consumer(topic, retry=FAST, dead_letter=dlq)(Slow)
    with running(app):
        until_done(kafka, app, topic)
    assert len(set(map(id, instances))) == 8
    assert set(attempts) == {1}
    assert dead_letters(kafka, dlq) == []
