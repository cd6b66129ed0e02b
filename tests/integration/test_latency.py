"""A latency budget: records that arrive within it are fetched together, and a backlog does not wait for it."""

from __future__ import annotations

import threading
import time

import pytest

import grete
from grete.client import Consumer, Producer
from tests.kafka import KafkaCluster

pytestmark = pytest.mark.kafka
# Far above what two records take, even on a busy machine.
BUDGET = 2.0


def test_records_within_the_budget_are_polled_together(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, 1)
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    with Producer(settings) as producer, Consumer({**settings, "latency": BUDGET}) as consumer:
        consumer.assign([(topic, 0, 0)])
        producer.produce_sync(topic, b"first")
        assert [message.value for message in consumer.poll(30.0)] == [b"first"]
        # The next Fetch is at the broker, or on its way.
        started = time.monotonic()
        producer.produce_sync(topic, b"second")
        producer.produce_sync(topic, b"third")
        assert [message.value for message in consumer.poll(30.0)] == [b"second", b"third"]
        assert time.monotonic() - started < BUDGET + 1.0


def test_a_backlog_does_not_wait_for_the_budget(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, 1)
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    with Producer(settings) as producer:
        producer.produce_many(topic, [bytes(1000)] * 20_000)
        producer.flush(30.0)
    with Consumer({**settings, "latency": 10.0}) as consumer:
        consumer.assign([(topic, 0, 0)])
        started, seen = time.monotonic(), 0
        # All but the end of the backlog, which is smaller than what a Fetch waits for.
        while seen < 18_000:
            seen += len(consumer.poll(30.0))
        assert time.monotonic() - started < 9.0


def test_a_handler_gets_records_within_the_budget_of_its_route_together(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, 1)
    batches: list[list[bytes | None]] = []
    arrived = threading.Semaphore(0)
    app = grete.App(f"latency-{topic}", kafka={"bootstrap.servers": kafka.bootstrap_servers}, group=f"g-{topic}")

    @app.consumer(topic, latency=BUDGET)
    def handle(messages: grete.Messages) -> None:
        batches.append([message.value for message in messages])
        arrived.release()

    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.produce_sync(topic, b"first")
        app.start()
        try:
            assert arrived.acquire(timeout=30.0)
            producer.produce_sync(topic, b"second")
            producer.produce_sync(topic, b"third")
            assert arrived.acquire(timeout=30.0)
        finally:
            app.stop()
    assert batches == [[b"first"], [b"second", b"third"]]
