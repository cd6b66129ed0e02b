"""Payloads with a Schema Registry: what Confluent's serialisers write is read, and what is not theirs is refused."""

import base64
import json
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import grete
from grete import _native
from grete.payloads import Avro, JsonSchema, Protobuf, Registry
from grete.payloads.schema_registry.wire import read_path
from tests.kafka.secrets import secret
from tests.unit.fake_registry import FakeRegistry
from tests.unit.record_batches import Record, batch

COLON = f"ä:{secret()}"


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


HERE = SerializationContext("orders", MessageField.VALUE)
# A port without a listener: the declaration must not care.
NOWHERE = "http://127.0.0.1:1"

ORDER_AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
ORDER_JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


@pytest.fixture
def confluent(registry: FakeRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


class Order(msgspec.Struct):
    id: int
    note: str | None = None


@dataclass
class Data:
    id: int
    note: str | None = None


class Model(pydantic.BaseModel):
    id: int


def framed(schema_id: int, data: bytes) -> bytes:
    return struct.pack(">BI", 0, schema_id) + data


def asked(registry: FakeRegistry) -> list[str]:
    return [path for method, path in registry.requests if method == "GET"]


def proto(package: str = "shop") -> tuple[Any, Any]:
    """A file with two messages; the second has another one inside."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name in ("Order", "Invoice"):
        message = file.message_type.add(name=name)
        message.field.add(name="id", number=1, type=3, label=1)
    inner = file.message_type[1].nested_type.add(name="Line")
    inner.field.add(name="sku", number=1, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return file, pool


def message_class(pool: Any, name: str) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


# Avro


def test_avro_that_confluent_wrote(registry: FakeRegistry, confluent: SchemaRegistryClient) -> None:
    serialize = AvroSerializer(confluent, json.dumps(ORDER_AVRO))
    value = serialize({"id": 3, "note": "hä"}, HERE)
    registry.requests.clear()
    decode = Avro(registry.url).decoder("orders")
    assert decode(value) == {"id": 3, "note": "hä"}
    assert decode(value) == {"id": 3, "note": "hä"}
    assert asked(registry) == ["/schemas/ids/1"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(Order, Order(3, "x")), (Data, Data(3, "x")), (Model, Model(id=3)), (None, {"id": 3, "note": "x"})],
)
def test_avro_becomes_a_type(
    registry: FakeRegistry, confluent: SchemaRegistryClient, wanted: Any, expected: object
) -> None:
    value = AvroSerializer(confluent, json.dumps(ORDER_AVRO))({"id": 3, "note": "x"}, HERE)
    found = Avro(registry.url, type=wanted).decoder("orders")(value)
    assert found == expected
    assert type(found) is type(expected)


def test_avro_is_read_by_the_readers_schema(registry: FakeRegistry, confluent: SchemaRegistryClient) -> None:
    value = AvroSerializer(confluent, json.dumps(ORDER_AVRO))({"id": 3, "note": "x"}, HERE)
    reader = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "double"}, {"name": "currency", "type": "string", "default": "EUR"}],
    }
    for given in (reader, json.dumps(reader)):
        assert Avro(registry.url, reader=given).decoder("orders")(value) == {"id": 3.0, "currency": "EUR"}


def test_avro_schemas_that_build_on_others(registry: FakeRegistry, confluent: SchemaRegistryClient) -> None:
    confluent.register_schema("order", Schema(json.dumps(ORDER_AVRO), "AVRO"))
    page = {"type": "record", "name": "Page", "namespace": "shop", "fields": [{"name": "first", "type": "shop.Order"}]}
    confluent.register_schema("page", Schema(json.dumps(page), "AVRO", [SchemaReference("shop.Order", "order", 1)]))
    book = {
        "type": "record",
        "name": "Book",
        "fields": [{"name": "page", "type": "shop.Page"}, {"name": "order", "type": "shop.Order"}],
    }
    references = [SchemaReference("shop.Page", "page", 1), SchemaReference("shop.Order", "order", 1)]
    order = {"id": 1, "note": None}
    content = {"page": {"first": order}, "order": order}
    value = AvroSerializer(confluent, Schema(json.dumps(book), "AVRO", references))(content, HERE)
    assert Avro(registry.url).decoder("orders")(value) == content


# Protobuf


@pytest.mark.parametrize(
    ("name", "field", "content"), [("Order", "id", 3), ("Invoice", "id", 4), ("Invoice.Line", "sku", "a")]
)
def test_protobuf_that_confluent_wrote(
    registry: FakeRegistry, confluent: SchemaRegistryClient, name: str, field: str, content: object
) -> None:
    _, pool = proto()
    wanted = message_class(pool, f"shop.{name}")
    serialize = ProtobufSerializer(wanted, confluent, {"use.deprecated.format": False})
    value = serialize(wanted(**{field: content}), HERE)
    registry.requests.clear()
    decode = Protobuf(registry.url, wanted).decoder("orders")
    assert getattr(decode(value), field) == content
    assert decode(value) == wanted(**{field: content})
    assert asked(registry) == ["/schemas/ids/1?format=serialized"]


def test_another_protobuf_message_is_not_read_as_if_it_were_this_one(
    registry: FakeRegistry, confluent: SchemaRegistryClient
) -> None:
    _, pool = proto()
    order, invoice = message_class(pool, "shop.Order"), message_class(pool, "shop.Invoice")
    value = ProtobufSerializer(invoice, confluent, {"use.deprecated.format": False})(invoice(id=3), HERE)
    with pytest.raises(ValueError, match=r"the value is a shop\.Invoice \(schema 1\), not a shop\.Order"):
        Protobuf(registry.url, order).decoder("orders")(value)


def test_a_registry_that_sends_protobuf_as_text_is_accepted(registry: FakeRegistry) -> None:
    _, pool = proto()
    order = message_class(pool, "shop.Order")
    registry.register("orders-value", {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message Order {}'})
    decode = Protobuf(registry.url, order).decoder("orders")
    assert decode(framed(1, b"\x00" + order(id=3).SerializeToString())) == order(id=3)


@pytest.mark.parametrize(
    ("data", "path", "start"),
    [
        (b"\x00rest", (0,), 1),
        (b"\x02\x00rest", (0,), 2),
        (b"\x02\x02rest", (1,), 2),
        (b"\x04\x02\x04rest", (1, 2), 3),
        (b"\x02\x80\x02rest", (128,), 3),
    ],
)
def test_message_paths(data: bytes, path: tuple[int, ...], start: int) -> None:
    assert read_path(data) == (path, start)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends within its message path"),
        (b"\x04\x02", "ends within its message path"),
        (b"\x02\x80", "ends within its message path"),
        (b"\x01", "a message path of -1 steps"),
        (b"\xfe\xff\xff\xff\x0f", "a message path of 2147483647 steps"),
        (b"\x02\x01", "a negative step"),
        (b"\xff\xff\xff\xff\xff\x0f", "longer than 32 bits"),
    ],
)
def test_message_paths_that_are_none(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_path(data)


def test_a_path_beyond_the_schema(registry: FakeRegistry) -> None:
    file, pool = proto()
    text = base64.b64encode(file.SerializeToString()).decode()
    registry.register("orders-value", {"schemaType": "PROTOBUF", "schema": text})
    decode = Protobuf(registry.url, message_class(pool, "shop.Order")).decoder("orders")
    with pytest.raises(ValueError, match=r"schema 1 has no message at \[7\]"):
        decode(framed(1, b"\x02\x0e"))


# JSON Schema


def test_json_that_confluent_wrote(registry: FakeRegistry, confluent: SchemaRegistryClient) -> None:
    value = JSONSerializer(json.dumps(ORDER_JSON), confluent)({"id": 3}, HERE)
    registry.requests.clear()
    decode = JsonSchema(registry.url).decoder("orders")
    assert [decode(value), decode(value)] == [{"id": 3}, {"id": 3}]
    assert asked(registry) == ["/schemas/ids/1"]
    assert JsonSchema(registry.url, type=Order).decoder("orders")(value) == Order(3)
    with pytest.raises(ValueError, match=r"^'x' is not of type 'integer' - at `\$\.id` of schema 1$") as caught:
        decode(framed(1, b'{"id":"x"}'))
    assert caught.value.__cause__ is not None
    assert JsonSchema(registry.url, validate=False).decoder("orders")(framed(1, b'{"id":"x"}')) == {"id": "x"}


def test_json_schemas_that_build_on_others(registry: FakeRegistry, confluent: SchemaRegistryClient) -> None:
    confluent.register_schema("order", Schema(json.dumps(ORDER_JSON), "JSON"))
    book = {"type": "object", "title": "Book", "properties": {"order": {"$ref": "order.json"}}}
    reference = SchemaReference("order.json", "order", 1)
    confluent.register_schema("book", Schema(json.dumps(book), "JSON", [reference]))
    decode = JsonSchema(registry.url).decoder("orders")
    assert decode(framed(2, b'{"order":{"id":3}}')) == {"order": {"id": 3}}
    with pytest.raises(ValueError, match="is not of type 'integer'"):
        decode(framed(2, b'{"order":{"id":"x"}}'))


# All of them


def formats(url: Any) -> dict[str, Any]:
    _, pool = proto()
    return {
        "AVRO": Avro(url),
        "PROTOBUF": Protobuf(url, message_class(pool, "shop.Order")),
        "JSON": JsonSchema(url),
    }


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF", "JSON"])
@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"", "the value is empty: a value with a schema registry begins with byte 0 and four bytes of schema id"),
        (b'{"id":3}', "the value begins with byte 123: .* was it written without one?"),
        (b"\x00\x00\x00\x01", "the value has 4 bytes only"),
        (b"\x01\x00\x00\x00\x01x", "the value has 6 bytes only"),
        (b"\x02\x00\x00\x00\x01x", "the value begins with byte 2"),
    ],
)
def test_values_without_a_frame(kind: str, value: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        formats(NOWHERE)[kind].decoder("orders")(value)


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF", "JSON"])
def test_a_schema_of_another_kind(registry: FakeRegistry, kind: str) -> None:
    other = "JSON" if kind == "AVRO" else "AVRO"
    registry.register("orders-value", {"schemaType": other, "schema": '{"type": "object"}'})
    value = framed(1, b"{}" if kind == "JSON" else b"\x00")
    with pytest.raises(ValueError, match=f"schema 1 is {other}, not"):
        formats(registry.url)[kind].decoder("orders")(value)


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF", "JSON"])
def test_a_schema_that_is_not_there_is_the_records_fault(registry: FakeRegistry, kind: str) -> None:
    value = framed(7, b"{}" if kind == "JSON" else b"\x00")
    with pytest.raises(LookupError, match="does not have a schema with id 7"):
        formats(registry.url)[kind].decoder("orders")(value)


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF", "JSON"])
def test_a_registry_that_is_down_makes_records_wait(kind: str) -> None:
    value = framed(7, b"{}" if kind == "JSON" else b"\x00")
    with pytest.raises(grete.RetryLater, match=f"the schema registry {NOWHERE} does not answer") as caught:
        formats(NOWHERE)[kind].decoder("orders")(value)
    assert caught.value.delay == 1.0


@pytest.mark.parametrize(
    ("status", "says"),
    [(500, "answers 500"), (429, "answers 429"), (302, "answers 302"), (401, "refuses access to .*: 401")],
)
def test_a_registry_in_trouble_makes_records_wait(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, status: int, says: str
) -> None:
    now = 1000.0
    monkeypatch.setattr("grete.payloads.schema_registry.transport.monotonic", lambda: now)
    registry.trouble = status
    decode = Avro(registry.url).decoder("orders")
    for wait in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        registry.requests.clear()
        for left in (wait, wait / 2):
            with pytest.raises(grete.RetryLater, match=says) as caught:
                decode(framed(1, b"\x06\x00"))
            assert caught.value.delay == left
            now += wait / 2
        assert asked(registry) == ["/schemas/ids/1"]  # not while it is left alone
    registry.trouble = None
    registry.register("orders-value", {"schema": json.dumps(ORDER_AVRO)})
    assert decode(framed(1, b"\x06\x00")) == {"id": 3, "note": None}
    registry.trouble = status
    with pytest.raises(grete.RetryLater) as caught:
        decode(framed(2, b""))
    assert caught.value.delay == 1.0


@pytest.mark.parametrize("answer", [b"<html>", b"{}", b"[]", b"3", b'{"schema": 3, "references": 3}'])
def test_what_does_not_answer_like_a_registry(registry: FakeRegistry, answer: bytes) -> None:
    registry.answer = answer
    with pytest.raises(grete.RetryLater, match="does not answer like a schema registry"):
        Avro(registry.url).decoder("orders")(framed(1, b"\x06\x00"))


def test_data_that_is_not_of_the_schema(registry: FakeRegistry) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER_AVRO)})
    decode = Avro(registry.url).decoder("orders")
    with pytest.raises(ValueError, match="field id: the data ends within an integer"):
        decode(framed(1, b""))
    with pytest.raises(ValueError, match="2 bytes remain after the data of schema 1"):
        decode(framed(1, b"\x06\x00xx"))


def test_a_record_that_does_not_decode_is_named_as_any_other(registry: FakeRegistry) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER_AVRO)})
    values = [framed(1, b"\x06\x00"), b'{"id":3}', None, framed(9, b"")]
    data = batch([Record(offset, value) for offset, value in enumerate(values, 5)])
    messages = _native._testing_decode(data, "orders", 2, decoder=Avro(registry.url).decoder("orders"))
    assert messages[0].payload == {"id": 3, "note": None}
    assert messages[2].payload is None
    with pytest.raises(
        grete.DecodeError, match=r"orders\[2\] offset 6 does not decode: .*begins with byte 123"
    ) as caught:
        messages[1].payload  # noqa: B018
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("orders", 2, 6)
    assert error.message is not None
    assert error.message.value == values[1]
    with pytest.raises(grete.DecodeError, match=r"offset 8 .*SchemaNotFoundError: .* does not have a schema with id 9"):
        messages[3].payload  # noqa: B018
    registry.trouble = 503
    again = _native._testing_decode(data, "orders", 2, decoder=Avro(registry.url).decoder("orders"))
    with pytest.raises(grete.RetryLater, match="answers 503"):
        again[0].payload  # noqa: B018


def test_many_threads_ask_once(registry: FakeRegistry) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER_AVRO)})
    decode = Avro(registry.url).decoder("orders")
    barrier = threading.Barrier(8)
    found: list[object] = []

    def run() -> None:
        barrier.wait(10)
        found.append(decode(framed(1, b"\x06\x00")))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == [{"id": 3, "note": None}] * 8
    assert asked(registry) == ["/schemas/ids/1"]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda url: Registry(url, user="me", password=COLON),
            "Basic " + base64.b64encode(f"me:{COLON}".encode()).decode(),
        ),
        (lambda url: Registry(url.replace("//", "//me:p%40ss@")), "Basic " + base64.b64encode(b"me:p@ss").decode()),
        (lambda url: Registry(url, token="t"), "Bearer t"),
        (lambda url: Registry(url, headers={"Authorization": "Own"}), "Own"),
    ],
)
def test_who_asks(registry: FakeRegistry, make: Callable[[str], Registry], expected: str) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER_AVRO)})
    asking = make(registry.url)
    assert asking.schema(1).text == json.dumps(ORDER_AVRO)
    assert registry.headers[-1]["Authorization"] == expected
    assert "p@ss" not in repr(asking)
    assert "p%40ss" not in repr(asking)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Registry("localhost:8081"), 'the address of a registry is like "http://localhost:8081"'),
        (lambda: Registry("ftp://x"), "the address of a registry"),
        (lambda: Registry("http://x:port"), "Port could not be cast"),
        (lambda: Registry(3), "Registry"),  # type: ignore[arg-type]
        (lambda: Registry(NOWHERE, user="me", token="t"), "user, token and auth are ways to say who you are: use one"),
        (lambda: Registry(NOWHERE, timeout="fast"), "a duration is a number and a unit"),
        (lambda: Registry("https://x", ca="/not/there.pem"), r"Registry\(ca='/not/there\.pem'\): .*No such file"),
        (lambda: Protobuf(NOWHERE, dict), "takes the class that protoc made of a message, .* not <class 'dict'>"),
    ],
)
def test_mistakes_are_reported_where_they_are_made(make: Callable[[], object], says: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"test_registry\.py:\d+: .*{says}"):
        make()


@pytest.mark.parametrize(
    ("library", "extra", "make"),
    [
        ("google.protobuf", "protobuf", lambda: Protobuf(NOWHERE, dict)),
        ("jsonschema", "jsonschema", lambda: JsonSchema(NOWHERE)),
        ("msgspec", "msgspec", lambda: Avro(NOWHERE, type=Data)),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, library: str, extra: str, make: Callable[[], object]
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == library else real(name))
    advice = rf'test_registry\.py:\d+: payloads\..* needs {library}: pip install "grete\[{extra}\]"'
    with pytest.raises(grete.ConfigError, match=advice):
        make()


def test_the_extras_are_there() -> None:
    import tomllib
    from pathlib import Path

    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert {"msgspec", "pydantic", "protobuf", "jsonschema", "uvloop"} <= set(extras)


def test_formats_and_annotations() -> None:
    app = grete.App("a")
    _, pool = proto()
    wanted = message_class(pool, "shop.Order")

    def plain(order: dict[str, Any]) -> None:
        """Nothing."""

    def typed(order: Order) -> None:
        """Nothing."""

    app.consumer("a", payload=Avro(NOWHERE))(plain)
    app.consumer("b", payload=Avro(NOWHERE, type=Order))(typed)
    app.consumer("c", payload=JsonSchema(NOWHERE, type=Order))(typed)
    with pytest.raises(grete.ConfigError, match="payload=Protobuf gives Order, and the function takes Order"):
        app.consumer("d", payload=Protobuf(NOWHERE, wanted))(typed)
    assert [route.style for route in app.routes] == ["payload"] * 3


def test_importing_grete_imports_none_of_the_libraries() -> None:
    import subprocess

    code = (
        "import sys, grete, grete.payloads; known = set(sys.modules); "
        "print(known & {'msgspec', 'pydantic', 'fastavro', 'google.protobuf', 'jsonschema', 'uvloop'})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
