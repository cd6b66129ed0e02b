"""All styles of handlers on a broker: what decodes is processed, what does not is set aside."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import grete
from grete.payloads import Avro, JsonSchema
from tests.kafka import KafkaCluster, eventually
from tests.unit.fake_registry import FakeRegistry

pytestmark = pytest.mark.kafka

FIELDS = [{"name": "id", "type": "long"}]
AVRO = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
RETRY = grete.Retry(attempts=2, backoff="1ms..10ms")
RECORDS = 30
# These do not decode with any schema; the handlers refuse the last one.
BAD = {7: b"\xff", 8: b"", 20: b"{"}
DISLIKED = 25


class Order(msgspec.Struct):
    id: int


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


class Seen:
    """What handlers were called with, in order."""

    def __init__(self) -> None:
        self.orders: list[int] = []
        self.threads: set[str] = set()

    def has(self, wanted: set[int]) -> bool:
        return set(self.orders) == wanted

    def take(self, order: Any) -> None:
        number = order["id"] if isinstance(order, dict) else order.id
        self.threads.add(threading.current_thread().name)
        if number == DISLIKED:
            raise grete.Reject("not this one")
        self.orders.append(number)


def of_messages(seen: Seen) -> Any:
    def take(messages: grete.Messages) -> None:
        for message in messages:
            seen.take(message.payload)

    return take


def of_message(seen: Seen) -> Any:
    def take(message: grete.Message) -> None:
        seen.take(message.payload)

    return take


def of_payload(seen: Seen) -> Any:
    def take(order: Order) -> None:
        seen.take(order)

    return take


def of_later_messages(seen: Seen) -> Any:
    async def take(messages: grete.Messages) -> None:
        for message in messages:
            seen.take(message.payload)

    return take


def of_later_message(seen: Seen) -> Any:
    async def take(message: grete.Message) -> None:
        seen.take(message.payload)

    return take


def of_later_payload(seen: Seen) -> Any:
    async def take(order: Order) -> None:
        seen.take(order)

    return take


def of_class(seen: Seen) -> Any:
    class Orders(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                seen.take(message.payload)

    return Orders


def of_later_class(seen: Seen) -> Any:
    class Orders(grete.Consumer):
        async def consume(self) -> None:
            for message in self.messages:
                seen.take(message.payload)

    return Orders


def fill(kafka: KafkaCluster, topic: str, encode: Callable[[int], bytes]) -> None:
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        values = [BAD.get(number, encode(number)) for number in range(RECORDS)]
        for delivery in producer.produce_many(topic, values):
            delivery.wait(30.0)


def set_aside(kafka: KafkaCluster, topic: str, count: int) -> dict[int, tuple[bytes | None, dict[str, str]]]:
    """Dead letters by the offset that they had."""
    found: dict[int, tuple[bytes | None, dict[str, str]]] = {}
    with grete.client.Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as consumer:
        consumer.assign([(topic, 0, 0)])

        def complete() -> bool:
            for message in consumer.poll(1.0):
                headers = {name: (value or b"").decode() for name, value in message.headers}
                found[int(headers["grete.source.offset"])] = message.value, headers
            return len(found) >= count

        eventually(complete, 60.0, lambda: f"{len(found)} of {count} dead letters")
    return found


def check_outcome(kafka: KafkaCluster, topic: str, group: str, dead: str, seen: Seen) -> None:
    letters = set_aside(kafka, dead, len(BAD) + 1)
    eventually(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, lambda: "all committed")
    assert sorted(letters) == sorted([*BAD, DISLIKED])
    for offset, (value, headers) in letters.items():
        if offset == DISLIKED:
            assert headers["grete.error.class"].endswith("Reject")
            continue
        assert value == BAD[offset]
        assert headers["grete.error.class"].endswith("DecodeError")
        assert headers["grete.attempts"] == "1"
        assert f"{topic}[0] offset {offset} does not decode" in headers["grete.error.message"]
    # Batches repeat what they had not marked; nothing is missing, and the first calls are in order.
    wanted = [number for number in range(RECORDS) if number not in letters]
    assert list(dict.fromkeys(seen.orders)) == wanted


STYLES = [
    of_messages,
    of_message,
    of_payload,
    of_class,
    of_later_messages,
    of_later_message,
    of_later_payload,
    of_later_class,
]


@pytest.mark.parametrize("concurrency", ["partition", "key"])
def test_each_style_sets_aside_what_does_not_decode(kafka: KafkaCluster, topic: str, concurrency: Any) -> None:
    app = grete.App("decoding", kafka={"bootstrap.servers": kafka.bootstrap_servers}, shutdown_timeout="20s")
    made = []
    for number, style in enumerate(STYLES):
        name, dead, seen = f"{topic}-{number}", f"{topic}-{number}-dead", Seen()
        kafka.create_topic(name)
        kafka.create_topic(dead)
        fill(kafka, name, lambda number: json.dumps({"id": number}).encode())
        handler = style(seen)
        app.consumer(name, group=name, payload=Order, retry=RETRY, dead_letter=dead, concurrency=concurrency)(handler)
        made.append((name, dead, seen))
    with app.running():
        for name, dead, seen in made:
            letters = set_aside(kafka, dead, len(BAD) + 1)
            assert sorted(letters) == sorted([*BAD, DISLIKED]), name
            if concurrency == "partition":
                check_outcome(kafka, name, name, dead, seen)
            else:
                wanted = {number for number in range(RECORDS) if number not in letters}
                eventually(functools.partial(seen.has, wanted), 60.0, lambda: "all processed")
    for number, (_, _, seen) in enumerate(made):
        later = number >= STYLES.index(of_later_messages)
        assert all(name.startswith("grete-loop" if later else "grete-worker-") for name in seen.threads), seen.threads


@pytest.mark.parametrize("kind", ["avro", pytest.param("json", marks=pytest.mark.soak)])
def test_a_registry_that_is_down_keeps_records_waiting(
    kafka: KafkaCluster, topic: str, registry: FakeRegistry, kind: str
) -> None:
    confluent = SchemaRegistryClient({"url": registry.url})
    here = SerializationContext(topic, MessageField.VALUE)
    serialize = AvroSerializer(confluent, AVRO) if kind == "avro" else JSONSerializer(JSON, confluent)
    dead = f"{topic}-dead"
    kafka.create_topic(topic)
    kafka.create_topic(dead)
    fill(kafka, topic, lambda number: serialize({"id": number}, here))
    registry.trouble = 503
    registry.requests.clear()
    app = grete.App("decoding", kafka={"bootstrap.servers": kafka.bootstrap_servers}, shutdown_timeout="20s")
    seen = Seen()
    payload = Avro(registry.url, type=Order) if kind == "avro" else JsonSchema(registry.url, type=Order)
    app.consumer(topic, payload=payload, retry=RETRY, dead_letter=dead)(of_payload(seen))
    with app.running():
        eventually(lambda: len(registry.requests) >= 3, 60.0, lambda: "it is asked again and again")
        assert seen.orders == []
        assert kafka.admin.end_offsets(dead) == {0: 0}
        registry.trouble = None
        check_outcome(kafka, topic, "decoding", dead, seen)
    assert seen.orders == [number for number in range(RECORDS) if number not in BAD and number != DISLIKED]
