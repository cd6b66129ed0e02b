"""The Avro codec for Python objects: types, classes, logical types, and what it refuses."""

import enum
import io
import json
import threading
import uuid
from collections import UserDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, TypedDict

import fastavro
import msgspec
import pydantic
import pytest

from grete import _native
from grete.payloads.avro_codec import compile_codec
from grete.payloads.avro_types.direct import plan

LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int", "default": 1}],
}
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
            {"name": "lines", "type": {"type": "array", "items": LINE}},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "tags", "type": {"type": "map", "values": "double"}, "default": {}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
)
AT = datetime(2026, 7, 30, 12, 34, 56, 789_000, tzinfo=UTC)
AS_DICT = {
    "id": 3,
    "state": "PAID",
    "lines": [{"sku": "a", "count": 2}, {"sku": "b", "count": 1}],
    "note": "hä",
    "tags": {"x": 0.5},
    "at": AT,
}


class State(enum.Enum):
    NEW = "NEW"
    PAID = "PAID"


class StructLine(msgspec.Struct):
    sku: str
    count: int = 1


class StructOrder(msgspec.Struct, kw_only=True):
    id: int
    state: State
    lines: list[StructLine]
    at: datetime
    note: str | None = None
    tags: dict[str, float] = {}


@dataclass
class DataLine:
    sku: str
    count: int = 1


@dataclass
class DataOrder:
    id: int
    state: Literal["NEW", "PAID"]
    lines: list[DataLine]
    note: str | None
    tags: dict[str, float]
    at: datetime


@dataclass
class DataMore(DataLine):
    extra: int = field(default=7)


class ModelLine(pydantic.BaseModel):
    sku: str
    count: int = 1


class ModelOrder(pydantic.BaseModel):
    id: int
    state: State
    lines: list[ModelLine]
    note: str | None
    tags: dict[str, float]
    at: datetime


class TypedLine(TypedDict):
    sku: str
    count: int


class TypedOrder(TypedDict):
    id: int
    state: str
    lines: list[TypedLine]
    note: str | None
    tags: dict[str, float]
    at: datetime


STRUCT = StructOrder(
    id=3, state=State.PAID, lines=[StructLine("a", 2), StructLine("b")], note="hä", tags={"x": 0.5}, at=AT
)
DATA = DataOrder(3, "PAID", [DataLine("a", 2), DataLine("b")], "hä", {"x": 0.5}, AT)
MODEL = ModelOrder(
    id=3, state=State.PAID, lines=[ModelLine(sku="a", count=2), ModelLine(sku="b")], note="hä", tags={"x": 0.5}, at=AT
)
TYPED: TypedOrder = {**AS_DICT}  # type: ignore[typeddict-item]


def by_fastavro(schema: str, value: object) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return stream.getvalue()


def one(kind: object, **more: object) -> str:
    """A record with one field."""
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, **more}]})


@pytest.mark.parametrize("value", [AS_DICT, STRUCT, DATA, MODEL, UserDict(AS_DICT)], ids=lambda one: type(one).__name__)
def test_objects_are_encoded_as_fastavro_encodes_dicts(value: object) -> None:
    assert _native.AvroCodec(ORDER).encode(value) == by_fastavro(ORDER, AS_DICT)


@pytest.mark.parametrize(
    ("into", "expected", "direct"),
    [
        (None, AS_DICT, True),
        (StructOrder, STRUCT, True),
        (DataOrder, DATA, True),
        (ModelOrder, MODEL, False),
        (TypedOrder, TYPED, False),
    ],
    ids=["dict", "Struct", "dataclass", "pydantic", "TypedDict"],
)
def test_data_becomes_a_type(into: Any, expected: object, direct: bool) -> None:
    convert = ModelOrder.model_validate if into is ModelOrder else lambda found: msgspec.convert(found, into)
    codec = compile_codec(ORDER, into=into, convert=None if into is None else convert)
    assert codec.decode(by_fastavro(ORDER, AS_DICT)) == expected
    assert isinstance(codec, _native.AvroCodec) is direct
    assert codec.decode(b"\0\0\0\0\1" + codec.encode(expected), 5) == expected


def test_a_plan_names_arguments() -> None:
    assert plan(ORDER, (), DataOrder) == {
        "shop.Order": (DataOrder, ["id", "state", "lines", "note", "tags", "at"], []),
        "shop.Line": (DataLine, ["sku", "count"], []),
    }
    made = plan(ORDER, (), StructOrder)
    assert made is not None
    assert made["shop.State"] == {"NEW": State.NEW, "PAID": State.PAID}
    assert made["shop.Order"][1] == []
    codec = compile_codec(json.dumps(LINE), into=DataMore)
    assert codec.decode(codec.encode(DataLine("a"))) == DataMore("a", 1, 7)


class Renamed(msgspec.Struct, rename="camel"):
    a_b: int


class Short(msgspec.Struct):
    a: msgspec.UnsetType | str = msgspec.UNSET


class Limited(msgspec.Struct):
    a: int
    missing: str


@pytest.mark.parametrize(
    ("kind", "into"), [("long", Renamed), ("int", Short), ("int", Limited), ("string", StructLine)]
)
def test_types_that_need_a_conversion_have_no_plan(kind: str, into: Any) -> None:
    assert plan(one(kind), (), into) is None


def test_two_classes_for_one_type_have_no_plan() -> None:
    class Other(msgspec.Struct):
        sku: str

    class Both(msgspec.Struct):
        a: StructLine
        b: Other

    fields = [{"name": "a", "type": LINE}, {"name": "b", "type": "Line"}]
    assert plan(json.dumps({"type": "record", "name": "Both", "fields": fields}), (), Both) is None


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, date(1, 1, 1)),
    ({"type": "int", "logicalType": "date"}, date(2024, 2, 29)),
    ({"type": "int", "logicalType": "date"}, date(9999, 12, 31)),
    ({"type": "int", "logicalType": "time-millis"}, time(23, 59, 59, 999_000)),
    ({"type": "long", "logicalType": "time-micros"}, time(0, 0, 0, 1)),
    ({"type": "long", "logicalType": "timestamp-millis"}, datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime(1, 1, 1, tzinfo=UTC)),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime.max.replace(tzinfo=UTC)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime(2026, 1, 2, 3, 4, 5, 6_000)),  # noqa: DTZ001
    ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2026, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-1.28")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("0.00")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 4}, Decimal("-" + "9" * 50 + ".1234")),
    ({"type": "fixed", "name": "F", "size": 6, "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("12.30")),
    ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5)),
]


@pytest.mark.parametrize(("kind", "value"), LOGICAL, ids=repr)
def test_logical_types_are_those_of_fastavro(kind: dict[str, object], value: object) -> None:
    schema = one(kind)
    codec, theirs = _native.AvroCodec(schema), by_fastavro(schema, {"a": value})
    assert codec.decode(theirs) == {"a": value}
    assert fastavro.schemaless_reader(io.BytesIO(codec.encode({"a": value})), json.loads(schema), None) == {"a": value}
    if kind.get("precision") is None:
        assert codec.encode({"a": value}) == theirs


def test_logical_types_that_fastavro_does_not_have() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}
    codec = _native.AvroCodec(one(fixed))
    assert codec.encode({"a": uuid.UUID(int=1)}) == bytes(15) + b"\1"
    assert codec.decode(bytes(15) + b"\1") == {"a": uuid.UUID(int=1)}
    nanos = _native.AvroCodec(one({"type": "long", "logicalType": "timestamp-nanos"}))
    assert nanos.decode(nanos.encode({"a": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)})) == {"a": 1_000_000_000}
    assert _native.AvroCodec('"null"').encode(None) == b""


def test_instants_have_a_time_zone() -> None:
    codec = _native.AvroCodec(one({"type": "long", "logicalType": "timestamp-millis"}))
    berlin = timezone(timedelta(hours=2))
    found = codec.decode(codec.encode({"a": datetime(2026, 7, 1, 2, tzinfo=berlin)}))
    assert found == {"a": datetime(2026, 7, 1, tzinfo=UTC)}
    with pytest.raises(ValueError, match=r"has no time zone: give it one"):
        codec.encode({"a": datetime(2026, 7, 1)})  # noqa: DTZ001


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int", "x", "field a: a number is needed, the value is a str"),
        ("int", True, "a number is needed, the value is a bool"),
        ("int", 1 << 31, "2147483648 is no int of 32 bits"),
        ("long", 1 << 63, "does not fit into 64 bits"),
        ("string", 1, "a str is needed"),
        ("bytes", "x", "a bytes is needed"),
        ("boolean", 1, "a bool is needed"),
        (["null", "string"], 1, "a str is needed"),
        (["null", "string", "boolean"], 1.5, "a union of null, string, boolean is needed"),
        ({"type": "array", "items": "int"}, {"x": 1}, "a list is needed"),
        ({"type": "map", "values": "int"}, {1: 1}, "a str as key of a map is needed"),
        ({"type": "map", "values": "int"}, [1], "a dict is needed"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "'B'|\"B\" is no symbol of enum E"),
        ({"type": "fixed", "name": "F", "size": 2}, b"x", "fixed F has 2 bytes, the value 1"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, Decimal("1.23"), "1 digits after"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, Decimal(12345), "more than 4 digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, Decimal("NaN"), "is no number"),
        (LINE, "x", "a dict or an object with the fields as attributes is needed"),
        (LINE, {"count": 1}, r"field a.sku: the value is missing, and the field has no default"),
    ],
    ids=repr,
)
def test_values_that_do_not_fit_are_named(kind: object, value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _native.AvroCodec(one(kind)).encode({"a": value})


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("string", b"\4\xff\xfe", "field a: a string is not UTF-8"),
        ("string", b"\xff\xff\xff\xff\x0f", "a length is -"),
        ("long", b"\x80", "the data ends within an integer"),
        ("long", b"\2\2", "1 byte remains after the data"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", "outside of the years 1 to 9999"),
        ({"type": "int", "logicalType": "time-millis"}, b"\1", "no time of day"),
        ({"type": "string", "logicalType": "uuid"}, b"\2x", "badly formed"),
    ],
)
def test_bytes_that_are_no_data_are_refused(kind: object, data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _native.AvroCodec(one(kind)).decode(data)


def test_unions_are_chosen_as_fastavro_chooses() -> None:
    small = {"type": "record", "name": "Small", "fields": [{"name": "x", "type": "int"}]}
    large = {
        "type": "record",
        "name": "Large",
        "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0}],
    }
    union = ["null", "boolean", "float", "string", "double", "bytes", small, large, {"type": "map", "values": "string"}]
    schema = one(union)
    codec = _native.AvroCodec(schema)
    values = [None, True, 1.5, 3, "x", b"x", {"x": 1}, {"x": 1, "y": 2}, {"k": "v"}, ("Large", {"x": 1}), {}]
    for value in values:
        assert codec.encode({"a": value}) == by_fastavro(schema, {"a": value}), value

    class Large(msgspec.Struct):
        x: int
        y: int = 0

    assert codec.encode({"a": Large(1)}) == by_fastavro(schema, {"a": ("Large", {"x": 1})})


def test_an_encoder_may_be_used_within_itself_and_by_threads() -> None:
    codec = _native.AvroCodec(one("int"), prefix=b"head")

    class Nested:
        @property
        def a(self) -> int:
            return len(codec.encode({"a": 300}))

    assert codec.encode(Nested()) == b"head\x0c"
    found: list[bytes] = []

    def work() -> None:
        found.extend(codec.encode({"a": number}) for number in range(1000))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(4 * [codec.encode({"a": number}) for number in range(1000)])


class Wide(msgspec.Struct):
    sku: str
    colour: str


@dataclass
class WideData:
    sku: str
    colour: str


class WideModel(pydantic.BaseModel):
    sku: str
    colour: str


@pytest.mark.parametrize(
    "value",
    [{"sku": "a", "colour": "red"}, Wide("a", "red"), WideData("a", "red"), WideModel(sku="a", colour="red")],
    ids=lambda one: type(one).__name__,
)
def test_fields_that_the_schema_does_not_have_are_not_lost(value: object) -> None:
    codec = _native.AvroCodec(json.dumps(LINE))
    for _ in range(2):
        with pytest.raises(
            ValueError, match="record Line has no field colour, which the value has; add it to the schema"
        ):
            codec.encode(value)
    assert codec.encode({"-type": "Line", "sku": "a"}) == codec.encode(DataLine("a"))


def test_references_and_readers() -> None:
    order = one("Line")
    reader = one(
        {**LINE, "fields": [{"name": "count", "type": "long"}, {"name": "new", "type": "string", "default": "-"}]}
    )
    codec = _native.AvroCodec(order, reader, references=[json.dumps(LINE)])
    assert codec.decode(codec.encode({"a": {"sku": "x", "count": 3}})) == {"a": {"count": 3, "new": "-"}}
    with pytest.raises(ValueError, match="the type Line is not defined"):
        _native.AvroCodec(order)
    with pytest.raises(ValueError, match=r"field R\.a: record Line cannot be read as int"):
        _native.AvroCodec(order, one("int"), references=[json.dumps(LINE)])
