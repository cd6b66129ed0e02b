"""Bad input and refusals: each error says which topic and why, nothing is half sent, and the producer goes on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import grete
from tests.integration.producers import producer as make
from tests.integration.producers import values
from tests.kafka import KafkaCluster
from tests.kafka.stored_batches import batches

pytestmark = pytest.mark.kafka
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("text", {"value": "text"}, "value.*encode"),
    ("number", {"value": 7}, "value.*int"),
    ("list", {"value": [1, 2]}, "value.*list"),
    ("text as key", {"key": "text"}, "key.*encode"),
    ("number as key", {"key": 7}, "key.*int"),
    ("text as a header's value", {"headers": [("name", "text")]}, "header.*name.*encode"),
    ("bytes as a header's name", {"headers": [(b"name", b"")]}, "header.*bytes"),
    ("a header that is no pair", {"headers": [("name",)]}, "header"),
    ("headers that are no sequence", {"headers": 7}, "headers.*int"),
    ("text as timestamp", {"timestamp": "now"}, "timestamp.*str"),
    ("float as timestamp", {"timestamp": 1.5}, "timestamp.*float"),
    ("text as partition", {"partition": "0"}, "partition.*str"),
    ("number as callback", {"on_delivery": 7}, "on_delivery.*int"),
]


@pytest.fixture
def orders(kafka: KafkaCluster, topic: str) -> str:
    """A topic of two partitions."""
    kafka.create_topic(topic, partitions=2)
    return topic


@pytest.fixture
def producer(kafka: KafkaCluster) -> Iterator[grete.client.Producer]:
    with make(kafka.bootstrap_servers) as opened:
        yield opened


def goes_on(kafka: KafkaCluster, producer: grete.client.Producer, topic: str) -> None:
    """It still works, and what was refused has left nothing."""
    assert producer.produce_sync(topic, b"sound", partition=0, timeout=30.0).offset == 0
    assert values(kafka, topic) == [b"sound"]
    assert values(kafka, topic, 1) == []


@pytest.mark.parametrize(
    ("call", "arguments", "says"),
    [
        pytest.param(call, arguments, says, id=f"{call}-{name}")
        for name, arguments, says in WRONG
        for call in ("produce", "produce_sync")
        # It waits itself.
        if not (call == "produce_sync" and "on_delivery" in arguments)
    ],
)
def test_wrong_types(
    kafka: KafkaCluster, producer: grete.client.Producer, orders: str, call: str, arguments: dict[str, Any], says: str
) -> None:
    row = {"value": b"v", **arguments}
    with pytest.raises(grete.RecordTypeError, match=says) as caught:
        getattr(producer, call)(orders, row.pop("value"), **row)
    assert isinstance(caught.value, TypeError)
    assert caught.value.topic == orders
    assert orders in str(caught.value)
    goes_on(kafka, producer, orders)


@pytest.mark.parametrize(
    "bad",
    [
        "text",
        7,
        ("key", b"value"),
        (b"key", "value"),
        (b"key", b"value", [("name", "text")]),
        (b"key", b"value", [], "now"),
        (b"key", b"value", [], 0, 0, 0),
        (),
    ],
    ids=repr,
)
def test_one_bad_record_among_many_keeps_all_of_them_back(
    kafka: KafkaCluster, producer: grete.client.Producer, orders: str, bad: object
) -> None:
    records: list[Any] = [(b"key", b"value") if isinstance(bad, tuple) else b"value" for _ in range(2001)]
    records[1000] = bad
    with pytest.raises(grete.RecordTypeError, match="1000") as caught:
        producer.produce_many(orders, records, partition=0)
    assert caught.value.topic == orders
    producer.flush(30.0)
    goes_on(kafka, producer, orders)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "with space", "slash/ed", "Käfer"], ids=lambda name: repr(name)[:12]
)
def test_names_that_no_topic_can_have(producer: grete.client.Producer, name: str) -> None:
    started = time.monotonic()
    with pytest.raises(grete.KafkaError) as caught:
        producer.produce(name, b"value")
    assert caught.value.name == "INVALID_TOPIC_EXCEPTION"
    assert time.monotonic() - started < 5.0, "there is nothing to wait for"
    assert f'"{name}"' in str(caught.value)


def test_a_topic_that_does_not_exist(kafka: KafkaCluster, orders: str) -> None:
    name = f"{orders}-unknown"
    with make(kafka.bootstrap_servers, max_block="1500ms") as producer:
        for call in (
            producer.produce,
            producer.produce_sync,
            lambda topic, value: producer.produce_many(topic, [value]),
        ):
            started = time.monotonic()
            with pytest.raises(grete.UnknownTopicError, match=name) as caught:
                call(name, b"value")
            assert 1.0 < time.monotonic() - started < 15.0, "max.block.ms, and not its default of 60 s"
            assert caught.value.topic == name
        with pytest.raises(grete.UnknownTopicError, match=name):
            producer.partitions(name, 0.5)
        goes_on(kafka, producer, orders)


def test_a_topic_that_is_created_while_a_call_waits(kafka: KafkaCluster, topic: str) -> None:
    with make(kafka.bootstrap_servers, max_block="500ms") as producer:
        with pytest.raises(grete.UnknownTopicError):
            producer.produce(topic, b"early")
        kafka.create_topic(topic)
        assert producer.produce_sync(topic, b"value", timeout=30.0).offset == 0


@pytest.mark.parametrize("partition", [2, 100, -1, -2, 1 << 31])
def test_partitions_that_are_not_there(
    kafka: KafkaCluster, producer: grete.client.Producer, orders: str, partition: int
) -> None:
    with pytest.raises((grete.GreteError, ValueError), match=f"{orders}.*{partition}"):
        producer.produce(orders, b"value", partition=partition)
    with pytest.raises((grete.GreteError, ValueError), match=f"{orders}.*{partition}"):
        producer.produce_many(orders, [b"value"], partition=partition)
    goes_on(kafka, producer, orders)


@pytest.mark.parametrize("where", ["value", "key", "headers"])
def test_a_record_that_is_larger_than_a_request_may_be(
    kafka: KafkaCluster, producer: grete.client.Producer, orders: str, where: str
) -> None:
    large = bytes(1_100_000)
    row: dict[str, Any] = {"value": b"v", where: [("large", large)] if where == "headers" else large}
    with pytest.raises(
        grete.RecordTooLargeError, match=r"1048576.*max\.request\.size|max\.request\.size.*1048576"
    ) as caught:
        producer.produce(orders, row.pop("value"), partition=0, **row)
    assert isinstance(caught.value, ValueError)
    assert caught.value.topic == orders
    with pytest.raises(grete.RecordTooLargeError, match=orders):
        producer.produce_many(orders, [b"small", large, b"small"], partition=0)
    producer.flush(30.0)
    goes_on(kafka, producer, orders)


def test_a_record_that_is_too_large_for_the_broker(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, config={"max.message.bytes": 10_000})
    with make(kafka.bootstrap_servers) as producer:
        delivery = producer.produce(topic, bytes(20_000))
        with pytest.raises(grete.DeliveryError, match=topic) as caught:
            delivery.wait(30.0)
        assert (caught.value.topic, caught.value.partition, caught.value.outcome) == (topic, 0, "not_written")
        assert caught.value.name == "MESSAGE_TOO_LARGE"
        assert caught.value.code == 10
        assert producer.produce_sync(topic, b"sound", timeout=30.0).outcome == "written"
    assert values(kafka, topic) == [b"sound"]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_batch_that_is_too_large_for_the_broker_goes_in_parts(kafka: KafkaCluster, topic: str, codec: str) -> None:
    """Only the record that is too large itself is refused; the others arrive in order."""
    kafka.create_topic(topic, config={"max.message.bytes": 10_000})
    records: list[bytes] = [b"%04d" % index + index.to_bytes(2, "big") * 300 for index in range(300)]
    records[150] = bytes(range(256)) * 80 if codec == "none" else random.Random(1).randbytes(20_000)
    with make(kafka.bootstrap_servers, compression_type=codec, linger_ms=200) as producer:
        deliveries = producer.produce_many(topic, records)
        with pytest.raises(grete.DeliveryError, match=topic):
            deliveries.wait(60.0)
        assert [(index, error.name) for index, error in deliveries.errors] == [(150, "MESSAGE_TOO_LARGE")]
        assert [delivery.outcome for delivery in deliveries] == ["written"] * 150 + ["not_written"] + ["written"] * 149
        producer.produce_sync(topic, b"sound", timeout=30.0)
    assert values(kafka, topic) == [*records[:150], *records[151:], b"sound"]
    assert len(batches(kafka, topic)) > (10 if codec == "none" else 1)


def test_a_closed_producer(kafka: KafkaCluster, orders: str) -> None:
    producer = make(kafka.bootstrap_servers)
    delivery = producer.produce_sync(orders, b"value", partition=0, timeout=30.0)
    producer.close()
    calls: list[Callable[[], object]] = [
        lambda: producer.produce(orders, b"late"),
        lambda: producer.produce_sync(orders, b"late"),
        lambda: producer.produce_many(orders, [b"late"]),
    ]
    for call in calls:
        with pytest.raises(grete.GreteError, match="closed"):
            call()
    assert delivery.wait(1.0).offset == 0, "what is known stays known"
    assert producer.close().count == 0, "once more does no harm"
    assert values(kafka, orders) == [b"value"]
