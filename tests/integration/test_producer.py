"""The basic round trip: what was produced is what is read."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import grete
from grete.client import Consumer, Producer
from tests.integration.app_process import AppRun
from tests.integration.frame_proxy import FrameAction, FrameProxy, always
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka


def settings(kafka: KafkaCluster, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": kafka.bootstrap_servers, **{name.replace("_", "."): more[name] for name in more}}


def read(kafka: KafkaCluster, topic: str, partitions: int, count: int) -> list[grete.Message]:
    found: list[grete.Message] = []
    with Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as consumer:
        consumer.assign([(topic, partition, "earliest") for partition in range(partitions)])
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            found.extend(consumer.poll(1.0))
    assert len(found) == count
    return sorted(found, key=lambda message: (message.partition, message.offset))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_what_is_read(kafka: KafkaCluster, topic: str, codec: str) -> None:
    kafka.create_topic(topic, partitions=1)
    with Producer(settings(kafka, compression_type=codec)) as producer:
        first = producer.produce(
            topic, b"one", key=b"k", headers=[("a", b"1"), ("a", None)], timestamp=1_700_000_000_123
        )
        second = producer.produce_sync(topic, None, key=b"", timestamp=datetime(2026, 1, 2, 3, 4, 5, 678000, UTC))
        many = producer.produce_many(topic, [(b"%d" % n, bytes(n), {"n": b"%d" % n}) for n in range(500)]).wait(60.0)
        assert (first.offset, second.offset, many[499].offset) == (0, 1, 501)
    messages = read(kafka, topic, 1, 502)
    assert (messages[0].key, messages[0].value, messages[0].timestamp) == (b"k", b"one", 1_700_000_000_123)
    assert messages[0].headers == (("a", b"1"), ("a", None))
    assert (messages[1].key, messages[1].value, messages[1].timestamp) == (b"", None, 1_767_323_045_678)
    for n, message in enumerate(messages[2:]):
        assert (message.key, message.value, message.headers) == (b"%d" % n, bytes(n), (("n", b"%d" % n),))
        assert abs(message.timestamp - time.time() * 1000) < 600_000


def test_keys_stay_together_and_in_order(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=6)
    with Producer(settings(kafka, linger_ms=0)) as producer:
        deliveries = [producer.produce(topic, b"%d" % n, key=b"%d" % (n % 97)) for n in range(20_000)]
        producer.flush(60.0)
        assert all(one.outcome == "written" for one in deliveries)
    messages = read(kafka, topic, 6, 20_000)
    for key in range(97):
        mine = [message for message in messages if message.key == b"%d" % key]
        assert len({message.partition for message in mine}) == 1
        assert [int(message.value or b"") for message in mine] == list(range(key, 20_000, 97))


def test_messages_can_be_produced_again(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=1)
    kafka.create_topic(f"{topic}-copy", partitions=1)
    with Producer(settings(kafka)) as producer:
        records = [(b"%d" % n, None if n % 7 == 0 else b"v%d" % n, [("h", b"x")], 1000 + n) for n in range(1000)]
        producer.produce_many(topic, records).wait(60.0)
        with Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as consumer:
            consumer.assign([(topic, 0, 0)])
            copied = 0
            while copied < 1000:
                messages = consumer.poll(10.0)
                copied += len(producer.produce_many(f"{topic}-copy", messages).wait(60.0))
    copies = read(kafka, f"{topic}-copy", 1, 1000)
    assert [(m.key, m.value, list(m.headers), m.timestamp) for m in copies] == records


def start_forwarder(kafka: KafkaCluster, topic: str, directory: Path, target: str, patience: str = "20s") -> AppRun:
    environment = {
        "FORWARDER_PATIENCE": patience,
        "FORWARDER_SERVERS": kafka.bootstrap_servers,
        "FORWARDER_GROUP": topic,
        "FORWARDER_FROM": topic,
        "FORWARDER_TO": target,
    }
    return AppRun("tests.integration.apps.forwarder:app", directory, environment)


def test_what_handlers_produced_is_delivered_before_the_last_commit(
    kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}-out"
    kafka.create_topic(target, partitions=3)
    kafka.create_topic(topic, partitions=4)
    fill(kafka.bootstrap_servers, topic, 4000, partitions=4)
    with start_forwarder(kafka, topic, tmp_path, target) as run:
        run.until(lambda: sum(event["count"] for event in run.seen) == 4000, 60.0, "all records")
        assert run.stop(seconds=40.0) == 0, run.output
    assert kafka.admin.lag(topic, [topic]) == 0
    assert len(read(kafka, target, 3, 4000)) == 4000
    assert "undelivered" not in run.output


@pytest.mark.parametrize("why", ["refused", "unanswered"])
def test_an_app_whose_producer_could_not_deliver_commits_nothing_and_fails(
    broker: KafkaCluster, proxy: FrameProxy, topic: str, tmp_path: Path, why: str
) -> None:
    target = f"{topic}-out"
    broker.create_topic(target, partitions=1, config={"max.message.bytes": 10} if why == "refused" else None)
    fill(broker.bootstrap_servers, topic, 400)
    if why == "unanswered":
        proxy.treat(requests=always(FrameAction.DROP))
    with start_forwarder(broker, topic, tmp_path, target, "4s") as run:
        run.until(lambda: sum(event["count"] for event in run.seen) >= 400, 60.0, "all records")
        status = run.stop(seconds=40.0)
    # A stop between two attempts of a refused job has no record in the air: then nothing is undelivered.
    assert status == 1 or (status == 0 and why == "refused"), run.output
    assert why != "refused" or "DeliveryError" in run.output, "the job failed, and not only the delivery"
    if status == 1:
        assert "stopped with undelivered records: " in run.output
        assert "these records will be processed again" in run.output
    assert set(broker.admin.committed(topic).values()) <= {0}, "offsets behind records that are nowhere"
    assert broker.admin.members(topic) == {}, "the group was left all the same"

    # So the next run does it all again.
    proxy.release()
    broker.create_topic(f"{target}-next", partitions=1)
    with start_forwarder(broker, topic, tmp_path, f"{target}-next") as run:
        run.until(lambda: sum(event["count"] for event in run.seen) == 400, 60.0, "all records")
        assert run.stop(seconds=40.0) == 0, run.output
    assert broker.admin.committed(topic) == {(topic, 0): 400}
    assert len(read(broker, f"{target}-next", 1, 400)) == 400
