"""Writing and reading beside Confluent's serializers: byte by byte, three formats, all strategies, keys and values."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from grete.errors import EncodeError
from grete.payloads import Avro, AvroType, JsonSchema, Protobuf, Reference
from grete.payloads.protobuf_messages import message_class, new_pool
from grete.payloads.schema_registry.subjects import SubjectName
from tests.unit.fake_registry import FakeRegistry

Part = Literal["value", "key"]
STRATEGIES = {
    "TopicName": topic_subject_name_strategy,
    "RecordName": record_subject_name_strategy,
    "TopicRecordName": topic_record_subject_name_strategy,
}
SUBJECTS = {
    "TopicName": "orders-{part}",
    "RecordName": "{name}",
    "TopicRecordName": "orders-{name}",
}
ORDER_AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
    ],
}
ORDER_JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
    "required": ["id"],
}
ORDER = {"id": 2**40, "note": "grüße", "lines": ["a", "b"]}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


@pytest.fixture
def confluent(registry: FakeRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def context(part: str, headers: list[Any] | None = None) -> SerializationContext:
    return SerializationContext("orders", MessageField.KEY if part == "key" else MessageField.VALUE, headers)


def theirs(**settings: Any) -> dict[str, Any]:
    return {"subject.name.strategy": topic_subject_name_strategy, **settings}


def shop_files() -> list[FileDescriptorProto]:
    """Two files: one imports the other, and Protobuf's own Timestamp."""
    common = FileDescriptorProto(name="shop/common.proto", package="shop.common", syntax="proto3")
    money = common.message_type.add(name="Money")
    money.field.add(name="cents", number=1, type=3, label=1)
    order = FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    order.dependency.extend(["shop/common.proto", "google/protobuf/timestamp.proto"])
    state = order.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    for name in ("Header", "Order"):
        message = order.message_type.add(name=name)
        message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="total", number=2, type=11, label=1, type_name=".shop.common.Money")
    message.field.add(name="at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    message.field.add(name="state", number=4, type=14, label=1, type_name=".shop.State")
    message.field.add(name="skus", number=5, type=9, label=3)
    message.field.add(name="counts", number=6, type=11, label=3, type_name=".shop.Order.CountsEntry")
    entry = message.nested_type.add(name="CountsEntry")
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=5, label=1)
    entry.options.map_entry = True
    line = message.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=9, label=1)
    return [common, order]


def shop_class(name: str) -> Any:
    return message_class(new_pool(shop_files()), name)


def shop_order(made: Any = None) -> Any:
    made = made or shop_class("shop.Order")
    order = made(id=7, state=1, skus=["a", "b"], counts={"x": 1})
    order.total.cents = 1999
    order.at.FromJsonString("2026-11-23T12:00:00.5Z")
    return order


# Byte by byte


@pytest.mark.parametrize("part", ["value", "key"])
@pytest.mark.parametrize("strategy", ["TopicName", "RecordName", "TopicRecordName"])
def test_avro(registry: FakeRegistry, confluent: SchemaRegistryClient, strategy: SubjectName, part: Part) -> None:
    registry.register("other", {"schema": '"string"'})  # so that ids are not all 1
    form = Avro(registry.url, schema=ORDER_AVRO, subject=strategy, auto_register=True)
    ours = form.encoder("orders", part)(ORDER)
    conf = theirs(**{"subject.name.strategy": STRATEGIES[strategy], "auto.register.schemas": False})
    serialize = AvroSerializer(confluent, json.dumps(ORDER_AVRO), conf=conf)
    assert ours == serialize(ORDER, context(part))
    assert ours is not None
    assert list(registry.versions) == ["other", SUBJECTS[strategy].format(part=part, name="shop.Order")]
    assert AvroDeserializer(confluent, conf=theirs())(ours, context(part)) == ORDER
    assert form.decoder("orders", part)(ours) == ORDER


@pytest.mark.parametrize("part", ["value", "key"])
@pytest.mark.parametrize("strategy", ["TopicName", "RecordName", "TopicRecordName"])
def test_json(registry: FakeRegistry, confluent: SchemaRegistryClient, strategy: SubjectName, part: Part) -> None:
    form = JsonSchema(registry.url, schema=ORDER_JSON, subject=strategy, auto_register=True)
    order = {"id": 3, "note": "grüße", "price": 1.5, "tags": ["a", None, True]}
    ours = form.encoder("orders", part)(order)
    conf = theirs(**{"subject.name.strategy": STRATEGIES[strategy], "auto.register.schemas": False})
    assert ours == JSONSerializer(json.dumps(ORDER_JSON), confluent, conf=conf)(order, context(part))
    assert ours is not None
    assert list(registry.versions) == [SUBJECTS[strategy].format(part=part, name="Order")]
    assert JSONDeserializer(None, schema_registry_client=confluent, conf=theirs())(ours, context(part)) == order
    assert form.decoder("orders", part)(ours) == order


@pytest.mark.parametrize("part", ["value", "key"])
@pytest.mark.parametrize("strategy", ["TopicName", "RecordName", "TopicRecordName"])
@pytest.mark.parametrize("name", ["shop.Header", "shop.Order", "shop.Order.Line"])
def test_protobuf(
    registry: FakeRegistry, confluent: SchemaRegistryClient, strategy: SubjectName, part: Part, name: str
) -> None:
    made = shop_class(name)
    message = (
        shop_order(made)
        if name == "shop.Order"
        else made(**{made.DESCRIPTOR.fields[0].name: "a"})
        if (name == "shop.Order.Line")
        else made(id=3)
    )
    form = Protobuf(registry.url, made, subject=strategy, auto_register=True)
    ours = form.encoder("orders", part)(message)
    conf = theirs(**{"subject.name.strategy": STRATEGIES[strategy], "auto.register.schemas": False})
    assert ours == ProtobufSerializer(made, confluent, conf)(message, context(part))
    assert ours is not None
    assert list(registry.versions) == ["shop/common.proto", SUBJECTS[strategy].format(part=part, name=name)]
    assert registry.schemas[1]["references"] == [
        {"name": "shop/common.proto", "subject": "shop/common.proto", "version": 1}
    ]
    assert ProtobufDeserializer(made, schema_registry_client=confluent, conf=theirs())(ours, context(part)) == message
    assert form.decoder("orders", part)(ours) == message


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('"string"', "grüße"),
        ('"bytes"', b"\x00\x01raw"),
        ('{"type": "bytes"}', b"raw"),
        ('"long"', -(2**40)),
        ('{"type": "array", "items": "int"}', [1, 2, 3]),
        ('["null", "string"]', "a"),
    ],
)
def test_avro_values_that_are_no_records(
    registry: FakeRegistry, confluent: SchemaRegistryClient, schema: str, value: Any
) -> None:
    form = Avro(registry.url, schema=schema, auto_register=True)
    ours = form.encoder("orders", "key")(value)
    assert ours == AvroSerializer(confluent, schema, conf=theirs())(value, context("key"))
    assert ours is not None
    assert AvroDeserializer(confluent, conf=theirs())(ours, context("key")) == value
    assert form.decoder("orders", "key")(ours) == value


def test_the_header_has_the_guid(registry: FakeRegistry, confluent: SchemaRegistryClient) -> None:
    made = shop_class("shop.Order")
    order = shop_order(made)
    settings = theirs(**{"schema.id.serializer": header_schema_id_serializer})
    cases: list[tuple[Any, Any, Any, Any]] = [
        (
            Avro(registry.url, schema=ORDER_AVRO, header=True, auto_register=True),
            AvroSerializer(confluent, json.dumps(ORDER_AVRO), conf=settings),
            AvroDeserializer(confluent, conf=theirs()),
            ORDER,
        ),
        (
            JsonSchema(registry.url, schema=ORDER_JSON, header=True, auto_register=True),
            JSONSerializer(json.dumps(ORDER_JSON), confluent, conf=settings),
            JSONDeserializer(None, schema_registry_client=confluent, conf=theirs()),
            {"id": 3},
        ),
        (
            Protobuf(registry.url, made, header=True, auto_register=True),
            ProtobufSerializer(made, confluent, settings),
            ProtobufDeserializer(made, schema_registry_client=confluent, conf=theirs()),
            order,
        ),
    ]
    for number, (form, serialize, deserialize, value) in enumerate(cases):
        for part in ("value", "key"):
            topic = f"orders-{number}"  # confluent's serializers take the topic from the context
            field = MessageField.KEY if part == "key" else MessageField.VALUE
            headers: list[Any] = []
            expected = serialize(value, SerializationContext(topic, field, headers))
            encode = form.encoder(topic, part)
            ours = encode(value)
            assert (ours, list(encode.headers())) == (expected, headers)
            assert headers[0][0] == f"__{part}_schema_id"
            assert headers[0][1][0] == 1
            assert deserialize(ours, SerializationContext(topic, field, list(encode.headers()))) == value
            decode = form.decoder(topic, part)
            assert decode.with_headers(ours, encode.headers()) == value
            with_prefix = headers[0][1] + ours  # GUIDs may also be before the data
            assert decode(with_prefix) == value
            assert decode.with_headers(with_prefix, [("other", b"x"), ("nothing", None)]) == value
    assert Avro(registry.url, schema=ORDER_AVRO).encoder("orders").headers is None


def test_the_header_with_a_registry_that_names_the_guid_later(registry: FakeRegistry) -> None:
    registry.full_response = False
    encode = Avro(registry.url, schema=ORDER_AVRO, header=True, auto_register=True).encoder("orders")
    encode(ORDER)
    assert encode.headers is not None
    assert next(iter(encode.headers()))[1][1:].hex() == registry.guid(1).replace("-", "")


def test_the_latest_version_and_a_given_id(registry: FakeRegistry, confluent: SchemaRegistryClient) -> None:
    newer = {**ORDER_AVRO, "fields": [*ORDER_AVRO["fields"], {"name": "more", "type": "long", "default": 5}]}
    for schema in (ORDER_AVRO, newer):
        confluent.register_schema("orders-value", Schema(json.dumps(schema), "AVRO"))
    latest = Avro(registry.url, use_latest=True).encoder("orders")(ORDER)
    conf = theirs(**{"use.latest.version": True, "auto.register.schemas": False})
    assert latest == AvroSerializer(confluent, None, conf=conf)(ORDER, context("value"))
    assert latest is not None
    assert latest[:5] == b"\x00\x00\x00\x00\x02"
    first = Avro(registry.url, id=1).encoder("orders")(ORDER)
    assert first is not None
    assert first[:5] == b"\x00\x00\x00\x00\x01"
    assert AvroDeserializer(confluent, conf=theirs())(first, context("value")) == ORDER


def test_references(registry: FakeRegistry, confluent: SchemaRegistryClient) -> None:
    confluent.register_schema("order", Schema(json.dumps(ORDER_AVRO), "AVRO"))
    book = {
        "type": "record",
        "name": "Book",
        "namespace": "library",
        "fields": [
            {"name": "first", "type": "shop.Order"},
            {"name": "all", "type": {"type": "array", "items": "shop.Order"}},
        ],
    }
    content = {"first": ORDER, "all": [ORDER, ORDER]}
    form = Avro(registry.url, schema=book, references=[Reference("shop.Order", "order", 1)], auto_register=True)
    ours = form.encoder("books")(content)
    reference = [SchemaReference("shop.Order", "order", 1)]
    serialize = AvroSerializer(confluent, Schema(json.dumps(book), "AVRO", reference), conf=theirs())
    assert ours == serialize(content, SerializationContext("books", MessageField.VALUE))
    assert ours is not None
    assert form.decoder("books")(ours) == content

    confluent.register_schema("line", Schema(json.dumps(ORDER_JSON), "JSON"))
    bill = {"type": "object", "title": "Bill", "properties": {"order": {"$ref": "order.json"}}}
    bills = JsonSchema(
        registry.url, schema=bill, references=[Reference("order.json", "line", 1)], auto_register=True
    ).encoder("bills")
    assert bills({"order": {"id": 3}}) is not None
    with pytest.raises(EncodeError, match=r"'x' is not of type 'integer' - at `\$\.order\.id` of schema \d"):
        bills({"order": {"id": "x"}})


# My types in, my types out


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(msgspec.Struct):
    sku: str
    price: Annotated[decimal.Decimal, AvroType({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})]


class Order(msgspec.Struct, rename="camel"):
    order_id: int
    at: datetime.datetime
    lines: list[Line] = msgspec.field(default_factory=list)
    colour: Colour = Colour.RED
    note: str | None = None
    ref: uuid.UUID | None = None
    first: Line | None = None


@dataclasses.dataclass
class Invoice:
    id: int
    day: datetime.date
    amounts: dict[str, float]
    small: Annotated[int, AvroType("int")] = 3
    raw: bytes = b""
    flag: bool = False


class Model(pydantic.BaseModel):
    order_id: int = pydantic.Field(alias="orderId")
    price: decimal.Decimal = pydantic.Field(max_digits=9, decimal_places=2)
    colour: Colour = Colour.BLUE
    tags: list[str] = []


class Typed(TypedDict):
    id: int
    note: NotRequired[str]


AT = datetime.datetime(2026, 11, 23, 12, 0, 0, 123456, datetime.UTC)
LINE = Line("a", decimal.Decimal("1.50"))
VALUES: list[Any] = [
    Order(1, AT, [LINE, LINE], Colour.BLUE, "x", uuid.UUID(int=7), LINE),
    Order(1, AT),
    Invoice(1, datetime.date(2026, 11, 23), {"a": 1.5}, 7, b"\x00\xff", True),
    Model(orderId=3, price=decimal.Decimal("12.30"), tags=["a"]),
]


@pytest.mark.parametrize("value", VALUES)
def test_avro_of_types(registry: FakeRegistry, confluent: SchemaRegistryClient, value: Any) -> None:
    form = Avro(registry.url, type(value), namespace="shop", auto_register=True)
    ours = form.encoder("orders")(value)
    assert ours is not None
    found = form.decoder("orders")(ours)
    assert (found, type(found)) == (value, type(value))
    # Confluent's deserializer reads it by the derived schema alone, and writes the same bytes again.
    plain = AvroDeserializer(confluent, conf=theirs())(ours, context("value"))
    again = AvroSerializer(confluent, registry.schemas[0]["schema"], conf=theirs())(plain, context("value"))
    assert again == ours


@pytest.mark.parametrize("value", VALUES)
def test_json_of_types(registry: FakeRegistry, confluent: SchemaRegistryClient, value: Any) -> None:
    form = JsonSchema(registry.url, type(value), auto_register=True)
    ours = form.encoder("orders")(value)
    assert ours is not None
    found = form.decoder("orders")(ours)
    assert (found, type(found)) == (value, type(value))
    plain = JSONDeserializer(None, schema_registry_client=confluent, conf=theirs())(ours, context("value"))
    assert JSONSerializer(registry.schemas[0]["schema"], confluent, conf=theirs())(plain, context("value")) == ours


def test_typed_dicts(registry: FakeRegistry) -> None:
    for form in (
        Avro(registry.url, Typed, subject="RecordName", auto_register=True),
        JsonSchema(registry.url, Typed, subject="TopicRecordName", auto_register=True),
    ):
        ours = form.encoder("orders")({"id": 3, "note": "x"})
        assert ours is not None
        assert form.decoder("orders")(ours) == {"id": 3, "note": "x"}
    assert list(registry.versions) == ["Typed", "orders-Typed"]


def test_the_derived_avro_schema() -> None:
    from grete.payloads.avro_types.derive import avro_schema

    line = {
        "type": "record",
        "name": "Line",
        "namespace": "shop",
        "fields": [
            {"name": "sku", "type": "string"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        ],
    }
    colour = {"type": "enum", "name": "Colour", "namespace": "shop", "symbols": ["red", "blue"]}
    assert avro_schema(Order, "shop") == {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "orderId", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "lines", "type": {"type": "array", "items": line}, "default": []},
            {"name": "colour", "type": colour, "default": "red"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "ref", "type": ["null", {"type": "string", "logicalType": "uuid"}], "default": None},
            {"name": "first", "type": ["null", "shop.Line"], "default": None},
        ],
    }
    # Null comes first, as people write it, unless the default is another branch's.
    assert avro_schema(str | int | None) == ["null", "string", "long"]


def test_several_types_in_one_topic(registry: FakeRegistry) -> None:
    invoice = Invoice(1, datetime.date(2026, 11, 23), {})
    for form in (
        Avro(registry.url, Order | Invoice, subject="TopicRecordName", auto_register=True),
        JsonSchema(registry.url, Order | Invoice, subject="TopicRecordName", auto_register=True),
    ):
        encode, decode = form.encoder(form.kind), form.decoder(form.kind)
        for value in (VALUES[0], invoice, VALUES[1]):
            ours = encode(value)
            assert ours is not None
            found = decode(ours)
            assert (found, type(found)) == (value, type(value))
            last = ours
        with pytest.raises(EncodeError, match="writes Order or Invoice, not Model"):
            encode(VALUES[3])
        stranger = type(form)(registry.url, Line | Model).decoder(form.kind)
        with pytest.raises(
            ValueError, match=r'the value is a "?(Order|Invoice)"? \(schema \d\), and the types are Line or M'
        ):
            stranger(last)
    assert list(registry.versions) == ["AVRO-Order", "AVRO-Invoice", "JSON-Order", "JSON-Invoice"]


# Protobuf without classes


@pytest.mark.parametrize(
    "value", [{"id": 7, "total": {"cents": 5}, "at": AT, "state": "PAID", "skus": ["a"], "counts": {"x": 2}}]
)
def test_protobuf_by_the_registrys_descriptors(
    registry: FakeRegistry, confluent: SchemaRegistryClient, value: dict[str, Any]
) -> None:
    made = shop_class("shop.Order")
    order = shop_order(made)
    theirs_bytes = ProtobufSerializer(made, confluent, theirs())(order, context("value"))
    assert theirs_bytes is not None
    found = Protobuf(registry.url).decoder("orders")(theirs_bytes)
    assert found.DESCRIPTOR.full_name == "shop.Order"
    assert found.SerializeToString() == order.SerializeToString()
    assert (found.total.cents, found.at.nanos) == (1999, 500_000_000)
    form = Protobuf(registry.url, "shop.Order", type=dict, use_latest=True)
    ours = form.encoder("orders")(value)
    assert ours is not None
    assert form.decoder("orders")(ours) == value
    read = ProtobufDeserializer(made, schema_registry_client=confluent, conf=theirs())(ours, context("value"))
    assert (read.total.cents, read.state, dict(read.counts)) == (5, 1, {"x": 2})
    assert read.at.ToDatetime(tzinfo=datetime.UTC) == AT
    with pytest.raises(EncodeError, match=r"shop\.Order has no field nope"):
        form.encoder("orders")({"nope": 1})
    with pytest.raises(EncodeError, match="State has no value LOST"):
        form.encoder("orders")({"state": "LOST"})


class Money(msgspec.Struct):
    cents: int


class ShopOrder(msgspec.Struct):
    id: int
    total: Money | None = None
    state: Literal["NEW", "PAID"] = "NEW"
    skus: list[str] = []
    counts: dict[str, int] = {}


def test_protobuf_by_a_descriptor_set(registry: FakeRegistry, confluent: SchemaRegistryClient, tmp_path: Any) -> None:
    path = tmp_path / "shop.pb"
    timestamps = FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamps)
    path.write_bytes(FileDescriptorSet(file=[timestamps, *shop_files()]).SerializeToString())
    form = Protobuf(registry.url, "shop.Order", descriptors=path, type=ShopOrder, auto_register=True)
    value = ShopOrder(3, Money(5), "PAID", ["a"], {"x": 1})
    ours = form.encoder("orders")(value)
    assert ours is not None
    assert form.decoder("orders")(ours) == value
    made = shop_class("shop.Order")
    message = made(id=3, state=1, skus=["a"], counts={"x": 1})
    message.total.cents = 5
    assert ours == ProtobufSerializer(made, confluent, theirs())(message, context("value"))


def test_tombstones(registry: FakeRegistry) -> None:
    assert Avro(registry.url, schema=ORDER_AVRO).encoder("orders")(None) is None
    assert registry.requests == []
