"""Records with a Schema Registry, as pages decode them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from grete._web.kafka import schemas
from grete._web.kafka.schemas import SchemaDecoder
from grete._web.security.masking import parse_masks
from grete._web.server.context import Parts
from grete.payloads import Avro
from tests.unit.fake_registry import FakeRegistry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "card", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "seal", "type": "bytes"},
    ],
}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


def record(value: bytes | None, key: bytes | None = None, headers: Any = ()) -> Any:
    return SimpleNamespace(topic="orders", key=key, value=value, headers=headers)


def encoded(registry: FakeRegistry, part: str = "value") -> bytes:
    import datetime
    import decimal

    encoder = Avro(registry.url, schema=ORDER, auto_register=True).encoder("orders", part)
    at = datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC)
    found = encoder({"card": "4711", "amount": decimal.Decimal("1.50"), "at": at, "seal": b"\x00\xff"})
    assert found is not None
    return found


def test_avro_is_json_and_can_be_masked(registry: FakeRegistry) -> None:
    decoder = SchemaDecoder(registry.url)
    message = record(encoded(registry), key=encoded(registry, "key"))
    expected = {"card": "4711", "amount": "1.50", "at": "2026-11-28 00:00:00+00:00", "seal": "00ff"}
    for part in ("key", "value"):
        found = decoder.as_json(message, part)
        assert found is not None
        assert json.loads(found) == expected
    none: Any = None
    parts = Parts(none, none, none, none, none, parse_masks(["orders:value.card"]), decoder)
    readable = parts.readable(message)
    assert readable.value is not None
    assert readable.key is not None
    assert json.loads(readable.value) == {**expected, "card": "***"}
    assert json.loads(readable.key) == expected


def test_json_schema_is_its_json(registry: FakeRegistry) -> None:
    number = registry.register("orders-value", {"schema": json.dumps({"type": "object"}), "schemaType": "JSON"})
    decoder = SchemaDecoder(registry.url)
    value = b"\x00" + number.to_bytes(4, "big") + b'{"card": 1}'
    assert decoder.as_json(record(value), "value") == b'{"card": 1}'


@pytest.mark.parametrize(
    "value", [None, b"", b"plain", b'{"a": 1}', b"\x00\x01", b"\x00\x00\x00\x03\xe7rest", b"\x01" * 30]
)
def test_other_bytes_stay_as_they_are(registry: FakeRegistry, value: bytes | None) -> None:
    assert SchemaDecoder(registry.url).as_json(record(value), "value") is None


def test_damaged_data_stay_as_they_are(registry: FakeRegistry) -> None:
    decoder = SchemaDecoder(registry.url)
    value = encoded(registry)
    assert decoder.as_json(record(value[:9]), "value") is None
    assert decoder.as_json(record(value), "value") is not None, "another record of the schema is decoded"


def test_a_registry_that_is_away_holds_up_one_record(registry: FakeRegistry, caplog: pytest.LogCaptureFixture) -> None:
    value = encoded(registry)
    registry.hold.clear()
    decoder = SchemaDecoder(registry.url)
    started = time.monotonic()
    assert [decoder.as_json(record(value), "value") for _ in range(50)] == [None] * 50
    asked = len(registry.requests)
    assert [decoder.as_json(record(value), "value") for _ in range(50)] == [None] * 50
    assert len(registry.requests) == asked
    assert caplog.text.count("does not answer in time") == 1
    assert time.monotonic() - started < 20
    registry.hold.set()


def test_records_that_name_any_schemas_are_asked_for_within_a_budget(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "_PATIENCE", 0.0)
    known = encoded(registry)
    decoder = SchemaDecoder(registry.url)
    assert decoder.as_json(record(known), "value") is not None
    registry.requests.clear()
    strange = [b"\0" + number.to_bytes(4, "big") + b"x" for number in range(1000, 1050)]
    assert [decoder.as_json(record(value), "value") for value in strange] == [None] * 50
    assert len(registry.requests) == 1
    assert decoder.as_json(record(known), "value") is not None, "what is known is decoded"
