"""`payloads.Avro` on Grete's own codec: objects by their attributes, and Arrow columns."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pyarrow as pa
import pydantic
import pydantic.dataclasses
import pytest

import grete
from grete import _native
from grete.payloads import Avro, AvroType
from grete.payloads.avro_types.attributes import has_written_attributes
from grete.payloads.avro_types.derive import avro_schema
from grete.payloads.schema_registry.conversion import plain_function
from tests.unit.fake_registry import FakeRegistry
from tests.unit.record_batches import Record, batch

AT = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


class Color(enum.Enum):
    RED = "red"


class Level(enum.Enum):
    LOW = 1


class Spoken(enum.Enum):
    YES = "of course"


class Line(msgspec.Struct):
    sku: str
    price: Annotated[decimal.Decimal, AvroType({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})]


class Struct(msgspec.Struct):
    lines: list[Line]
    more: dict[str, Line] | None = None
    at: datetime.datetime | None = None
    color: Color | None = None
    spoken: Spoken | None = None
    kind: Literal["a", "b"] = "a"
    tags: frozenset[str] = frozenset()
    parent: "Struct | None" = None


@dataclasses.dataclass
class Data:
    id: uuid.UUID
    lines: tuple[Line, ...]
    either: Line | str | int = 3


class Inner(pydantic.BaseModel):
    color: Color
    ratio: float = 0.5


class Model(pydantic.BaseModel):
    inner: list[Inner]
    price: decimal.Decimal = pydantic.Field(max_digits=9, decimal_places=2)
    tags: set[str] = set()


class Typed(TypedDict):
    line: Line
    note: NotRequired[str]


LINE = Line("a", decimal.Decimal("1.50"))
DIRECT: list[tuple[Any, Any]] = [
    (Line, LINE),
    (Struct, Struct([LINE, LINE], {"x": LINE}, AT, Color.RED, Spoken.YES, "b", frozenset({"x"}), Struct([]))),
    (Data, Data(uuid.UUID(int=7), (LINE, LINE), LINE)),
    (Data, Data(uuid.UUID(int=7), (), "x")),
    (Model, Model(inner=[Inner(color=Color.RED)], price=decimal.Decimal("12.30"), tags={"x"})),
    (Typed, {"line": LINE, "note": "x"}),
]


class Renamed(msgspec.Struct, rename="camel"):
    a_b: int = 1


class Outer(msgspec.Struct):
    inner: list[Renamed]


class Tagged(msgspec.Struct, tag=True):
    a: int = 1


class Unset(msgspec.Struct):
    a: Annotated[int | msgspec.UnsetType, AvroType(["null", "long"])] = msgspec.UNSET


class Numbered(msgspec.Struct):
    level: Level = Level.LOW


class SpokenOrNumber(msgspec.Struct):
    a: Spoken | int = Spoken.YES


class TagsOrText(msgspec.Struct):
    a: frozenset[str] | str = frozenset({"x"})


class Alias(pydantic.BaseModel):
    a: int = pydantic.Field(default=1, alias="b")


class AliasInside(pydantic.BaseModel):
    inner: Alias = Alias()


class Serialized(pydantic.BaseModel):
    a: int = 1

    @pydantic.field_serializer("a")
    def twice(self, a: int) -> int:
        return 2 * a


class Annotations(pydantic.BaseModel):
    a: Annotated[int, pydantic.PlainSerializer(lambda a: a + 1)] = 1


@pydantic.dataclasses.dataclass
class Checked:
    a: int = 1


CONVERTED: list[tuple[Any, Any]] = [
    (Renamed, Renamed()),
    (Outer, Outer([Renamed()])),
    (Tagged, Tagged()),
    (Numbered, Numbered()),
    (SpokenOrNumber, SpokenOrNumber()),
    (TagsOrText, TagsOrText()),
    (Alias, Alias()),
    (AliasInside, AliasInside()),
    (Serialized, Serialized()),
    (Annotations, Annotations()),
    (Checked, Checked()),
]


@pytest.mark.parametrize(("wanted", "value"), DIRECT, ids=lambda one: getattr(one, "__name__", ""))
def test_attributes_are_written_as_dicts_are(registry: FakeRegistry, wanted: Any, value: Any) -> None:
    schema = avro_schema(wanted)
    assert has_written_attributes(schema, wanted)
    codec = _native.AvroCodec(json.dumps(schema))
    assert codec.encode(value) == codec.encode(plain_function(wanted, "Avro")(value))
    form = Avro(registry.url, wanted, auto_register=True)
    encoded = form.encoder("orders")(value)
    assert encoded is not None
    assert encoded[5:] == codec.encode(value)
    assert form.decoder("orders")(encoded) == value


@pytest.mark.parametrize(("wanted", "value"), CONVERTED, ids=lambda one: getattr(one, "__name__", ""))
def test_types_that_are_written_differently_are_converted(registry: FakeRegistry, wanted: Any, value: Any) -> None:
    schema = avro_schema(wanted)
    assert not has_written_attributes(schema, wanted)
    plain = plain_function(wanted, "Avro")(value)
    encoded = Avro(registry.url, wanted, auto_register=True).encoder("orders")(value)
    assert encoded is not None
    assert encoded[5:] == _native.AvroCodec(json.dumps(schema)).encode(plain)


def test_fields_that_are_not_set_get_the_default_of_the_schema(registry: FakeRegistry) -> None:
    schema = {"type": "record", "name": "Unset", "fields": [{"name": "a", "type": "long", "default": 7}]}
    form = Avro(registry.url, Unset, schema=schema, auto_register=True)
    encoded = form.encoder("orders")(Unset())
    assert encoded is not None
    assert form.decoder("orders")(encoded) == Unset(7)


def test_a_method_is_no_field(registry: FakeRegistry) -> None:
    @dataclasses.dataclass
    class Counted:
        a: int

        def count(self) -> int:
            return self.a

    fields = [{"name": "a", "type": "long"}, {"name": "count", "type": "long", "default": 7}]
    schema = {"type": "record", "name": "Counted", "fields": fields}
    form = Avro(registry.url, Counted, schema=schema, auto_register=True)
    encoded = form.encoder("orders")(Counted(1))
    assert encoded is not None
    assert Avro(registry.url).decoder("orders")(encoded) == {"a": 1, "count": 7}


# Columns


def click(*more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Click", "fields": [{"name": "url", "type": "string"}, *more]}


USER = {"name": "user", "type": "long", "default": -1}


def messages(*values: bytes | None) -> grete.Messages:
    return _native._testing_decode(batch([Record(at, value) for at, value in enumerate(values, 5)]), "clicks", 2)


def written(registry: FakeRegistry, schema: Any, value: Any) -> bytes:
    encoded = Avro(registry.url, schema=schema, auto_register=True).encoder("clicks")(value)
    assert encoded is not None
    return encoded


def test_columns_of_several_schemas(registry: FakeRegistry) -> None:
    old = written(registry, click(), {"url": "/old"})
    new = written(registry, click(USER), {"url": "/new", "user": 3})
    registry.requests.clear()
    form = Avro(registry.url, reader=click(USER))
    for _ in range(2):
        assert pa.array(form.to_arrow(messages(old, None, new, old))).to_pylist() == [
            {"url": "/old", "user": -1},
            {"url": None, "user": None},
            {"url": "/new", "user": 3},
            {"url": "/old", "user": -1},
        ]
    assert [path for _, path in registry.requests] == ["/schemas/ids/1", "/schemas/ids/2"]
    found = Avro(registry.url).to_arrow(messages(old, new))
    assert (found.names, len(found)) == (["url"], 2)


def test_a_value_that_is_no_row_is_named(registry: FakeRegistry) -> None:
    value = written(registry, click(), {"url": "/"})
    form = Avro(registry.url)
    with pytest.raises(
        grete.DecodeError, match=r"clicks\[2\] offset 6 does not decode: ValueError: .*field url"
    ) as error:
        form.to_arrow(messages(value, value[:-1]))
    assert error.value.offset == 6
    with pytest.raises(grete.DecodeError, match=r"offset 5 .*does not have a schema with id 9"):
        form.to_arrow(messages(b"\0\0\0\0\x09"))
    registry.trouble = 503
    with pytest.raises(grete.RetryLater, match="answers 503"):
        form.to_arrow(messages(value, b"\0\0\0\0\x08"))
    assert len(form.to_arrow(messages(value))) == 1  # its schema is known


class MayLack(TypedDict):
    id: int
    note: NotRequired[str]
    maybe: NotRequired[str | None]


class Pair(NamedTuple):
    id: int
    color: Color = Color.RED


class OfShapes(TypedDict):
    first: MayLack
    pairs: list[Pair]
    by_name: dict[str, MayLack | None]
    pair: Pair | None


class StructOfPairs(msgspec.Struct):
    pairs: list[Pair]
    level: Level | None = None


class Chain(NamedTuple):
    id: int
    next: "Chain | None" = None


@pytest.mark.parametrize(
    ("kind", "value", "back"),
    [
        (MayLack, {"id": 1}, {"id": 1, "maybe": None}),
        (MayLack, {"id": 1, "note": "n", "maybe": "m"}, {"id": 1, "note": "n", "maybe": "m"}),
        (Pair, Pair(1), Pair(1)),
        (
            OfShapes,
            {"first": {"id": 1}, "pairs": [Pair(2), Pair(3)], "by_name": {"a": {"id": 4}, "b": None}, "pair": Pair(5)},
            {
                "first": {"id": 1, "maybe": None},
                "pairs": [Pair(2), Pair(3)],
                "by_name": {"a": {"id": 4, "maybe": None}, "b": None},
                "pair": Pair(5),
            },
        ),
        (StructOfPairs, StructOfPairs([Pair(1), Pair(2)]), StructOfPairs([Pair(1), Pair(2)])),
        (StructOfPairs, StructOfPairs([Pair(1)], Level.LOW), StructOfPairs([Pair(1)], Level.LOW)),
        (Chain, Chain(1, Chain(2)), Chain(1, Chain(2))),
    ],
    ids=repr,
)
def test_named_tuples_and_keys_that_may_lack(registry: FakeRegistry, kind: Any, value: Any, back: Any) -> None:
    form = Avro(registry.url, kind, auto_register=True)
    data = form.encoder("shapes")(value)
    assert data is not None
    found = form.decoder("shapes")(data)
    assert (found, type(found)) == (back, type(back))


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.mark.parametrize(
    "settings",
    [{"schema": DECIMAL}, {"schema": json.dumps(DECIMAL)}, {"reader": DECIMAL}, {"type": decimal.Decimal}],
    ids=str,
)
def test_a_decimal_as_a_whole_value_is_refused_at_the_declaration(settings: dict[str, Any]) -> None:
    with pytest.raises(grete.ConfigError, match=r"test_avro_payloads.py:\d+: .*a whole value"):
        Avro("http://localhost:1", **settings)


def test_a_decimal_as_a_whole_value_in_the_registry_is_refused(registry: FakeRegistry) -> None:
    schema_id = registry.register("prices-value", {"schema": json.dumps(DECIMAL), "schemaType": "AVRO"})
    with pytest.raises(grete.EncodeError, match="cannot be a whole value"):
        Avro(registry.url, id=schema_id).encoder("prices")(decimal.Decimal(1))
    with pytest.raises(ValueError, match="cannot be a whole value"):
        Avro(registry.url).decoder("prices")(b"\0\0\0\0\1\2\4")
