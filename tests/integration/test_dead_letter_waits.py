"""A dead letter that cannot be written yet: its record stays, the log says why, others go on, and at last it goes."""

from __future__ import annotations

import logging
import threading
from collections import Counter

import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, header, make, running, until_done
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually, new_cluster

pytestmark = pytest.mark.kafka
POISON = 17


def dead_letter_errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What is wrong with dead letters, as the log has it."""
    rows = [row for row in caplog.records if row.__dict__.get("event") == "consumer.dead_letter"]
    return [row for row in rows if row.levelno >= logging.ERROR]


def write(kafka: KafkaCluster, topic: str, size: int = 5) -> None:
    """60 records of as many keys."""
    with producer(kafka.bootstrap_servers) as target:
        rows = [target.produce(topic, b"x" * size, key=b"%d" % at, partition=0) for at in range(60)]
        for row in rows:
            row.wait(30)


def test_other_keys_go_on_while_the_dead_letter_topic_is_missing(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic)
    write(kafka, topic)
    missing = f"{topic}.missing"
    seen: Counter[int] = Counter()
    app = make(kafka, group)

    @app.consumer(topic, concurrency="key", offset_map=True, retry=FAST, dead_letter=missing)
    def handle(message: grete.Message) -> None:
        if message.offset == POISON:
            raise ValueError("poison")
        seen[message.offset] += 1

    with running(app):
        eventually(lambda: len(seen) == 59 and dead_letter_errors(caplog), 60.0, "all others are done")
        assert kafka.admin.committed(group)[topic, 0] <= POISON
        assert missing in dead_letter_errors(caplog)[0].getMessage()
        kafka.create_topic(missing)
        until_done(kafka, app, topic)
    assert set(seen.values()) == {1}
    (dead,) = dead_letters(kafka, missing)
    assert header(dead, "grete.source.offset") == str(POISON)
    assert header(dead, "grete.attempts") == "3", "tries to write it are no attempts"


def test_a_dead_letter_that_was_too_large_goes_when_it_is_allowed_to(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    tight = f"{topic}.tight"
    kafka.create_topic(topic)
    kafka.create_topic(tight, config={"max.message.bytes": 1000})
    write(kafka, topic, size=5000)
    app = make(kafka, group)

    @app.consumer(topic, retry=FAST, dead_letter=tight)
    def handle(message: grete.Message) -> None:
        if message.offset == POISON:
            raise ValueError("poison")

    with running(app), grete.client.Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        eventually(lambda: dead_letter_errors(caplog), 60.0, "the log says so")
        assert "max.message.bytes" in dead_letter_errors(caplog)[0].getMessage()
        assert kafka.admin.committed(group).get((topic, 0), 0) <= POISON
        admin.alter_config(tight, {"max.message.bytes": "100000"})
        until_done(kafka, app, topic)
    (dead,) = dead_letters(kafka, tight)
    assert dead.value == b"x" * 5000


@pytest.mark.timeout(180)
def test_a_broker_that_is_down_for_a_while_costs_no_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    with new_cluster() as own:
        own.create_topic("orders")
        own.create_topic("orders.dlq")
        write(own, "orders")
        seen: Counter[int] = Counter()
        attempts: Counter[int] = Counter()
        last, down = threading.Event(), threading.Event()
        app = make(own, "billing")

        @app.consumer("orders", retry=FAST, dead_letter="orders.dlq")
        def handle(message: grete.Message) -> None:
            if message.offset == POISON:
                attempts[POISON] += 1
                if attempts[POISON] == 3:
                    last.set()
                    down.wait(60)
                raise ValueError("poison")
            seen[message.offset] += 1

        with running(app):
            assert last.wait(30)
            own.kill(1)
            down.set()
            eventually(lambda: dead_letter_errors(caplog), 60.0, "the log says so")
            assert POISON + 1 not in seen, "strict order: nothing behind it"
            own.start(1)
            until_done(own, app, "orders")
        dead = dead_letters(own, "orders.dlq")
    assert [header(row, "grete.source.offset") for row in dead] == [str(POISON)] * len(dead)
    assert set(seen) == set(range(60)) - {POISON}
    assert len(dead) == 1
