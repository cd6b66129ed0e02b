"""Avro values of records as Arrow columns, beside the dicts of the codec."""

import gc
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import polars
import pyarrow as pa
import pytest

import grete
from grete import _native
from grete.payloads.avro_codec import columns
from tests.unit.record_batches import Record, batch

FIELDS: list[dict[str, Any]] = [
    {"name": "flag", "type": "boolean"},
    {"name": "int", "type": "int"},
    {"name": "long", "type": ["null", "long"]},
    {"name": "float", "type": "float"},
    {"name": "double", "type": "double"},
    {"name": "bytes", "type": "bytes"},
    {"name": "text", "type": ["string", "null"]},
    {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
    {"name": "state", "type": {"type": "enum", "name": "E", "symbols": ["NEW", "PAID"]}},
    {"name": "list", "type": {"type": "array", "items": ["null", "int"]}},
    {"name": "map", "type": {"type": "map", "values": "string"}},
    {"name": "inner", "type": ["null", {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}]},
    {"name": "lists", "type": {"type": "array", "items": {"type": "array", "items": "I"}}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
]
SCHEMA = json.dumps({"type": "record", "name": "R", "fields": FIELDS})


def row(number: int) -> dict[str, Any]:
    odd = bool(number % 2)
    return {
        "flag": odd,
        "int": -number,
        "long": None if odd else 1 << 40,
        "float": 0.5,
        "double": number / 4,
        "bytes": bytes(number % 5),
        "text": f"tä{number}" if odd else None,
        "fixed": b"ab",
        "state": "PAID" if odd else "NEW",
        "list": [number, None][: number % 3],
        "map": {"k": str(number)} if odd else {},
        "inner": {"x": number} if odd else None,
        "lists": [[{"x": 1}], [], [{"x": 2}, {"x": number}]][: number % 4],
        "day": date(2026, 1, 1 + number % 28),
        "clock": time(1, 2, 3, number),
        "at": datetime(2026, 1, 1, 0, 0, number % 60, tzinfo=UTC),
        "local": datetime(2026, 1, 1, 0, 0, number % 60),  # noqa: DTZ001
        "price": Decimal(number) / 100 - 1,
    }


def messages(values: list[bytes | None]) -> grete.Messages:
    return _native._testing_decode(batch([Record(at, value) for at, value in enumerate(values)]), "orders", 0)


def as_python(table: _native.ArrowColumns) -> list[dict[str, Any]]:
    array = pa.array(table)
    array.validate(full=True)
    found: list[dict[str, Any]] = array.to_pylist(maps_as_pydicts="strict")
    return found


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_columns_are_the_rows_of_the_codec(count: int) -> None:
    codec = _native.AvroCodec(SCHEMA)
    rows = [row(number) for number in range(count)]
    table = columns(messages([codec.encode(one) for one in rows] or [None])[: count or None], codec)
    expected = rows if count else [dict.fromkeys(rows[0] if rows else row(0))]
    assert as_python(table) == expected
    assert len(table) == len(expected)
    assert table.names == list(row(0))


def test_types_are_arrows_own() -> None:
    codec = _native.AvroCodec(SCHEMA)
    kind = pa.schema(columns(messages([codec.encode(row(1))]), codec))
    assert kind.field("state").type == pa.dictionary(pa.int32(), pa.string())
    assert kind.field("at").type == pa.timestamp("ms", "UTC")
    assert kind.field("local").type == pa.timestamp("us")
    assert kind.field("price").type == pa.decimal128(9, 2)
    assert kind.field("map").type.item_type == pa.string()
    assert kind.field("inner").type == pa.struct([pa.field("x", pa.int32(), nullable=False)])
    assert kind.field("fixed").type == pa.binary(2)
    assert kind.field("day").type == pa.date32()


def test_tombstones_are_rows_of_nulls() -> None:
    codec = _native.AvroCodec(SCHEMA)
    found = as_python(columns(messages([None, codec.encode(row(3)), None]), codec))
    nothing = dict.fromkeys(row(0))
    assert found == [nothing, row(3), nothing]
    assert pa.record_batch(columns(messages([None, codec.encode(row(3))]), codec)).num_columns == len(FIELDS)


def test_polars_reads_them_after_all_else_is_gone() -> None:
    codec = _native.AvroCodec(SCHEMA)
    table = columns(messages([codec.encode(row(number)) for number in range(50)]), codec)
    frame = polars.DataFrame(table)
    del table
    gc.collect()
    assert frame["int"].to_list() == [-number for number in range(50)]
    assert frame["state"].to_list() == [row(number)["state"] for number in range(50)]
    assert frame["inner"].to_list()[1] == {"x": 1}


def test_schemas_of_other_writers_are_resolved() -> None:
    def schema(*fields: dict[str, Any]) -> str:
        return json.dumps({"type": "record", "name": "R", "fields": list(fields)})

    first = schema({"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "-"})
    second = schema({"name": "c", "type": "string"}, {"name": "a", "type": "int"})
    by_id = {1: _native.AvroCodec(first), 7: _native.AvroCodec(second)}
    asked = []

    def codec(schema_id: int) -> _native.AvroCodec:
        asked.append(schema_id)
        return by_id[schema_id]

    def framed(schema_id: int, value: dict[str, Any]) -> bytes:
        return b"\0" + schema_id.to_bytes(4) + by_id[schema_id].encode(value)

    values = [None, framed(1, {"a": 1, "b": "x"}), framed(7, {"a": 2, "c": "y"}), framed(1, {"a": 3, "b": "z"})]
    assert as_python(columns(messages(values), codec)) == [
        {"a": None, "b": None},
        {"a": 1, "b": "x"},
        {"a": 2, "b": "-"},
        {"a": 3, "b": "z"},
    ]
    assert asked == [1, 7]
    assert len(columns(messages([None, None]), codec)) == 2
    with pytest.raises(grete.DecodeError, match=r"orders\[0\].*offset 1") as caught:
        columns(messages([None, b"{}"]), codec)
    assert "zero byte and a schema id" in str(caught.value.__cause__)


def test_a_value_that_is_not_a_record_is_one_column() -> None:
    codec = _native.AvroCodec('["null", "long"]')
    values = [codec.encode(1), codec.encode(None), None]
    assert as_python(columns(messages(values), codec)) == [{"value": 1}, {"value": None}, {"value": None}]


def test_schemas_without_columns_are_refused() -> None:
    codec = _native.AvroCodec('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}')
    with pytest.raises(ValueError, match="field a: Arrow has no column for a union of int, string"):
        columns(messages([codec.encode({"a": 1})]), codec)
    with pytest.raises(ValueError, match="field a: Arrow has no column"):
        columns(messages([b"\0\0\0\0\1" + codec.encode({"a": 1})]), lambda _: codec)


def test_a_record_that_does_not_decode_is_named() -> None:
    codec = _native.AvroCodec(SCHEMA)
    good = codec.encode(row(1))
    with pytest.raises(grete.DecodeError) as caught:
        columns(messages([good, good[:-1]]), codec)
    assert caught.value.message is not None
    assert caught.value.message.offset == 1
    assert "field price" in str(caught.value.__cause__)
