"""What an App's metrics say it has done is what it has done, with a real broker."""

from __future__ import annotations

import threading
import time

import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, make, running, until_done
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually
from tests.unit.exposition import Exposition

pytestmark = pytest.mark.kafka

HOUR = 3600
BAD = b"bad"


def measured(app: grete.App) -> Exposition:
    exposed = Exposition(app.metrics())
    exposed.check()
    return exposed


def test_each_record_is_counted_by_what_became_of_it(kafka: KafkaCluster, topic: str, group: str) -> None:
    """40 records: 10 too old, 2 that cannot be processed, and the others, which fail together with these at first."""
    dlq, copies = f"{topic}.dlq", f"{topic}.copies"
    for name in (topic, dlq, copies):
        kafka.create_topic(name, partitions=1)
    now = int(time.time() * 1000)
    with producer(kafka.bootstrap_servers) as target:
        target.produce_many(topic, [b"old"] * 10, partition=0, timestamp=now - HOUR * 1000).wait(30)
        values = [BAD if at in (7, 20) else b"%d" % at for at in range(30)]
        target.produce_many(topic, values, partition=0, timestamp=now).wait(30)
    runs: list[int] = []
    copied: list[bytes | None] = []

    app = make(kafka, group)

    @app.consumer(topic, retry=FAST, dead_letter=dlq, max_age="10m")
    class Orders(grete.Consumer):
        def consume(self) -> None:
            runs.append(len(self.messages))
            for message in self.messages:
                if message.value == BAD:
                    raise ValueError("bad")
                self.producer.produce(copies, message.value)
                copied.append(message.value)

    with running(app):
        until_done(kafka, app, topic)
        eventually(lambda: measured(app).one("grete_producer_pending_records") == 0, 30.0, "all copies are there")
        exposed = measured(app)
    letters = dead_letters(kafka, dlq)
    assert len(letters) == 2

    def one(name: str, **labels: str) -> float:
        return exposed.one(name, **labels)

    assert one("grete_records_total", handler="Orders.consume") == 28
    assert one("grete_dead_letters_total", handler="Orders.consume") == 2
    assert one("grete_expired_records_total", handler="Orders.consume") == 10
    assert one("grete_skipped_records_total", handler="Orders.consume") == 0
    # Each of the two fails three times, and then goes: twice it runs again.
    assert one("grete_job_failures_total", handler="Orders.consume") == 6
    assert one("grete_retries_total", handler="Orders.consume") == 4
    assert one("grete_handler_duration_seconds_count", handler="Orders.consume") == len(runs)
    assert one("grete_handler_duration_seconds_bucket", handler="Orders.consume", le="+Inf") == len(runs)
    assert 0 < one("grete_handler_duration_seconds_sum", handler="Orders.consume") < 60
    assert one("grete_jobs_total", handler="Orders.consume") == len(runs) + len(letters)
    lane = {"handler": "Orders.consume", "topic": topic, "partition": "0"}
    assert one("grete_lag_records", **lane) == 0
    assert one("grete_lag_seconds", **lane) == 0
    assert now / 1000 <= one("grete_last_progress_timestamp_seconds", **lane) <= time.time()
    assert one("grete_queued_bytes", **lane) == 0
    assert one("grete_rebalances_total", group=group) == 1
    assert one("grete_commits_total", group=group) > 0
    assert one("grete_commit_failures_total", group=group) == 0
    assert one("grete_fetched_records_total") == 40
    assert one("grete_fetched_bytes_total") > 40 * len("old")
    assert one("grete_buffer_bytes") == 0
    assert one("grete_connections") > 0
    assert one("grete_produced_records_total") == len(copied) + len(letters)
    assert one("grete_produce_failures_total") == 0
    assert one("grete_busy_workers") == 0


def test_what_is_left_has_an_age(kafka: KafkaCluster, topic: str, group: str) -> None:
    """Two records an hour old and one that is young: the first is done, the second held."""
    kafka.create_topic(topic, partitions=1)
    now = time.time()
    with producer(kafka.bootstrap_servers) as target:
        for at, age in enumerate((2 * HOUR, HOUR, 0)):
            target.produce(topic, b"%d" % at, partition=0, timestamp=int((now - age) * 1000)).wait(30)
    began, goes_on = threading.Event(), threading.Event()
    app = make(kafka, group)

    @app.consumer(topic, max_messages=1)
    def orders(messages: grete.Messages) -> None:
        if messages[0].value == b"1":
            began.set()
            goes_on.wait(60.0)

    lane = {"handler": "orders", "topic": topic, "partition": "0"}
    try:
        with running(app):
            assert began.wait(60.0)
            exposed = measured(app)
            assert exposed.one("grete_lag_records", **lane) == 2
            assert HOUR <= exposed.one("grete_lag_seconds", **lane) < 1.5 * HOUR
            assert exposed.one("grete_busy_workers") == exposed.one("grete_jobs_running", handler="orders") == 1
            goes_on.set()
            until_done(kafka, app, topic)
            assert measured(app).one("grete_lag_seconds", **lane) == 0
    finally:
        goes_on.set()
