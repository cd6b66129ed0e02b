"""Handlers that read and write with a Schema Registry: what waits, and what goes on."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

import grete
from grete import _native, testing
from grete.payloads import Avro
from tests.unit.fake_registry import FakeRegistry
from tests.unit.record_batches import Record, batch

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
CLICK = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        fake.register("orders-value", {"schema": json.dumps(ORDER)})
        fake.register("clicks-value", {"schema": json.dumps(CLICK)})
        yield fake


def value(schema_id: int, number: int) -> bytes:
    return struct.pack(">BI", 0, schema_id) + bytes((number * 2,))


def test_other_keys_go_on_while_the_registry_is_down(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    form = Avro(registry.url)
    decode = form.decoder("orders")
    decode(value(1, 1))  # known before the registry goes down
    registry.trouble = 503
    handled: list[int] = []

    def handle(message: grete.Message) -> None:
        handled.append(message.payload["id"])
        if len(handled) == 3:  # all that can be read
            registry.trouble = None
            # The registry is asked again after a second of the clock on the wall; the test's clock is another one.
            monkeypatch.setattr("grete.payloads.schema_registry.transport.monotonic", lambda: float("inf"))

    records = [
        testing.Record(value(2, 9), key="a"),
        *(testing.Record(value(1, number), key=key) for number, key in enumerate("bcd")),
    ]
    run = testing.consume(handle, "orders", records, payload=form, concurrency="key", dead_letter="orders.dlq")
    assert handled == [0, 1, 2, 9]
    assert run.dead == []


def test_a_handler_that_writes_waits_too(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Avro(registry.url, schema=ORDER).encoder("orders")
    registry.trouble = 503
    tries = 0

    class Orders(grete.Consumer):
        def consume(self) -> None:
            nonlocal tries
            tries += 1
            if tries == 3:
                registry.trouble = None
                monkeypatch.setattr("grete.payloads.schema_registry.transport.monotonic", lambda: float("inf"))
            for message in self.messages:
                self.producer.produce("orders", encode({"id": 5}))
                self.mark(message)

    run = testing.consume(Orders, "clicks", [b"x"], retry=grete.Retry(attempts=1), dead_letter="clicks.dlq")
    assert run.produced["orders"].values() == [value(1, 5)]
    assert (tries, run.dead) == (3, [])


def test_a_schema_that_is_not_registered_is_a_failure(registry: FakeRegistry) -> None:
    encode = Avro(registry.url, schema=ORDER).encoder("invoices")

    def handle(message: grete.Message) -> None:
        encode({"id": 1})

    run = testing.consume(handle, "clicks", [b"x"], retry=grete.Retry(attempts=2), dead_letter="clicks.dlq")
    assert (run.dead[0].error, run.dead[0].attempts) == ("SchemaNotFoundError", 2)


def test_a_record_whose_header_names_the_schema(registry: FakeRegistry) -> None:
    form = Avro(registry.url, schema=ORDER, header=True)
    encode = form.encoder("orders")
    data = encode({"id": 3})
    assert data == b"\x06"
    assert encode.headers is not None
    named = [("trace", b"x"), *encode.headers()]
    records = [
        Record(5, data, headers=named),
        Record(6, value(2, 4), headers=[("trace", b"x")]),
        Record(7, value(1, 5)),
        Record(8, None, headers=named),
    ]
    messages = _native._testing_decode(batch(records), "orders", 2, decoder=form.decoder("orders"))
    assert [message.payload for message in messages] == [{"id": 3}, {"id": 4}, {"id": 5}, None]
    assert messages[0].headers == tuple(named)

    def handle(message: grete.Message) -> None:
        read.append(message.payload)

    read: list[Any] = []
    testing.consume(handle, "orders", [testing.Record(data, headers=named)], payload=form)
    assert read == [{"id": 3}]
