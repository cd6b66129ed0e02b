"""Records to encode and decode, and the ways to do so."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import fastavro
import msgspec
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from grete.payloads import Avro
from grete.payloads.avro_codec import compile_codec
from grete.payloads.schema_registry.schemas import Schema

HEADER = struct.Struct(">BI")


class Order(msgspec.Struct):
    """The flat order."""

    id: int
    customer: str
    amount: float
    currency: str
    count: int
    paid: bool
    note: str | None
    at: datetime


class Line(msgspec.Struct):
    """A part of the nested order."""

    sku: str
    count: int
    price: float


class Nested(msgspec.Struct):
    """The order with lines and attributes."""

    id: int
    state: str
    lines: list[Line]
    tags: dict[str, str]


FLAT_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "currency", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NESTED_SCHEMA = {
    "type": "record",
    "name": "Nested",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "sku", "type": "string"},
                        {"name": "count", "type": "int"},
                        {"name": "price", "type": "double"},
                    ],
                },
            },
        },
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}


@dataclass(frozen=True)
class Case:
    """Schema, its class, and records."""

    name: str
    schema: dict[str, Any]
    into: type[Any]
    records: Sequence[dict[str, Any]]


CASES = (
    Case(
        "flat, 8 fields",
        FLAT_SCHEMA,
        Order,
        [
            {
                "id": 1_000_000 + number,
                "customer": f"customer-{number % 97}",
                "amount": number * 1.25,
                "currency": "EUR",
                "count": number % 7,
                "paid": number % 2 == 0,
                "note": None if number % 3 else "leave it at the door",
                "at": datetime.fromtimestamp(1_780_000_000 + number, UTC),
            }
            for number in range(100)
        ],
    ),
    Case(
        "nested, 5 lines",
        NESTED_SCHEMA,
        Nested,
        [
            {
                "id": number,
                "state": "PAID",
                "lines": [{"sku": f"sku-{line}", "count": line, "price": line * 0.5} for line in range(5)],
                "tags": {"channel": "web", "country": "DE"},
            }
            for number in range(100)
        ],
    ),
)


@dataclass(frozen=True)
class Way:
    """One way to encode or decode all records of a case."""

    name: str
    direction: str  # "encode" or "decode"
    run: Callable[[], Any]


class OneSchema:
    """A registry with one schema, in memory."""

    def __init__(self, schema_id: int, text: str) -> None:
        self._found = Schema(text, id=schema_id)

    def schema(self, schema_id: int, form: str = "") -> Schema:  # noqa: ARG002
        """The schema, whatever its id."""
        assert schema_id == self._found.id
        return self._found

    def version(self, subject: str, version: int, form: str = "") -> Schema:
        """There are no references."""
        raise LookupError(f"{subject} {version} {form}")


def ways(case: Case) -> list[Way]:
    """All ways of a case. Each handles all records once in a run, with the header of the registry's serializers."""
    text = json.dumps(case.schema)
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    context = SerializationContext("orders", MessageField.VALUE)
    serialize = AvroSerializer(client, text)
    deserialize = AvroDeserializer(client)
    values = [serialize(record, context) for record in case.records]
    schema_id = HEADER.unpack_from(values[0])[1]
    codec = compile_codec(text, prefix=values[0][: HEADER.size])
    classes = compile_codec(text, into=case.into, prefix=values[0][: HEADER.size])
    objects = [msgspec.convert(record, case.into) for record in case.records]
    if [codec.encode(record) for record in case.records] != values or [
        classes.encode(one) for one in objects
    ] != values:
        raise SystemExit(f"{case.name}: the encodings differ from those of confluent-kafka")
    registry = OneSchema(schema_id, text)
    dicts, structs = Avro(registry, id=schema_id), Avro(registry, case.into, id=schema_id)
    encode_dict, encode_struct = dicts.encoder("orders"), structs.encoder("orders")
    payload_dict, payload_struct = dicts.decoder("orders"), structs.decoder("orders")
    if [encode_dict(record) for record in case.records] != values or [encode_struct(one) for one in objects] != values:
        raise SystemExit(f"{case.name}: the encodings of Avro(...) differ from those of confluent-kafka")
    by_id = {schema_id: codec.decode}
    classes_by_id = {schema_id: classes.decode}
    parsed = fastavro.parse_schema(case.schema)

    def decode(value: bytes) -> Any:
        magic, found = HEADER.unpack_from(value)
        assert magic == 0
        return by_id[found](value, HEADER.size)

    def decode_class(value: bytes) -> Any:
        magic, found = HEADER.unpack_from(value)
        assert magic == 0
        return classes_by_id[found](value, HEADER.size)

    def fast_encode(record: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        stream.write(values[0][: HEADER.size])
        fastavro.schemaless_writer(stream, parsed, record)
        return stream.getvalue()

    def fast_decode(value: bytes) -> Any:
        stream = io.BytesIO(value)
        stream.seek(HEADER.size)
        return fastavro.schemaless_reader(stream, parsed, None)

    def check(found: list[Any], expected: Sequence[Any]) -> None:
        if found != list(expected):
            raise SystemExit(f"{case.name}: the decoded records differ")

    check([decode(value) for value in values], case.records)
    check([decode_class(value) for value in values], objects)
    check([deserialize(value, context) for value in values], case.records)
    check([fast_decode(value) for value in values], case.records)
    check([payload_dict(value) for value in values], case.records)
    check([payload_struct(value) for value in values], objects)
    return [
        Way("Grete, dict", "encode", lambda: [codec.encode(record) for record in case.records]),
        Way("Grete, Struct", "encode", lambda: [classes.encode(one) for one in objects]),
        Way("Avro(...), dict", "encode", lambda: [encode_dict(record) for record in case.records]),
        Way("Avro(...), Struct", "encode", lambda: [encode_struct(one) for one in objects]),
        Way("confluent-kafka", "encode", lambda: [serialize(record, context) for record in case.records]),
        Way("fastavro", "encode", lambda: [fast_encode(record) for record in case.records]),
        Way("Grete, dict", "decode", lambda: [decode(value) for value in values]),
        Way("Grete, Struct", "decode", lambda: [decode_class(value) for value in values]),
        Way("Avro(...), dict", "decode", lambda: [payload_dict(value) for value in values]),
        Way("Avro(...), Struct", "decode", lambda: [payload_struct(value) for value in values]),
        Way("confluent-kafka", "decode", lambda: [deserialize(value, context) for value in values]),
        Way("fastavro", "decode", lambda: [fast_decode(value) for value in values]),
    ]
