"""What `payload=` and annotations make of bytes, and which library does it."""

import decimal
import enum
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pydantic.dataclasses
import pytest

import grete
from grete import payloads, testing
from grete.payloads.json_types import decoder_for


class Struct(msgspec.Struct):
    id: int
    note: str = ""


class Tagged(msgspec.Struct, tag="a"):
    id: int


class OtherTagged(msgspec.Struct, tag="b"):
    id: int


class Model(pydantic.BaseModel):
    id: int


class ModelOther(pydantic.BaseModel):
    other: int


@pydantic.dataclasses.dataclass
class ModelClass:
    id: int


@dataclass
class Data:
    id: int
    price: decimal.Decimal = decimal.Decimal(0)


@dataclass
class WithModel:
    model: Model


class Service:
    """Nothing that could be read from JSON."""


@dataclass
class WithForeign:
    foreign: Service


class Typed(TypedDict):
    id: int


class Row(NamedTuple):
    id: int
    name: str


class Colour(enum.Enum):
    RED = "red"


class Tree(msgspec.Struct):
    children: "list[Tree]" = msgspec.field(default_factory=list)


JSON_ID = b'{"id":3}'


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        (bytes, b"\xff\x00", b"\xff\x00"),
        (bytes | None, b"x", b"x"),
        (str, "grüße".encode(), "grüße"),
        (Annotated[Struct, "as billed"] | None, JSON_ID, Struct(3)),
        (Annotated[int, msgspec.Meta(gt=0)], b"3", 3),
        (Annotated[Model | None, "as billed"], JSON_ID, Model(id=3)),
        (Annotated[str, msgspec.Meta(max_length=3)] | None, b"abc", "abc"),
        (Annotated[bytes, ["unhashable"]], b"abc", b"abc"),
        (Any, b'{"a":[1,2.5,null,true]}', {"a": [1, 2.5, None, True]}),
        (dict, b'{"a":1}', {"a": 1}),
        (list, b"[1]", [1]),
        (dict[str, int], b'{"a":1}', {"a": 1}),
        (int, b"3", 3),
        (decimal.Decimal, b'"1.10"', decimal.Decimal("1.10")),
        (Struct, JSON_ID, Struct(3)),
        (Struct | None, b"null", None),
        (Tagged | OtherTagged, b'{"type":"b","id":3}', OtherTagged(3)),
        (Tree, b'{"children":[{}]}', Tree([Tree()])),
        (Model, JSON_ID, Model(id=3)),
        (Model | None, JSON_ID, Model(id=3)),
        (list[Model], b'[{"id":3}]', [Model(id=3)]),
        (Model | ModelOther, b'{"other":3}', ModelOther(other=3)),
        (ModelClass, JSON_ID, ModelClass(3)),
        (WithModel, b'{"model":{"id":3}}', WithModel(Model(id=3))),
        (Data, b'{"id":3,"price":"2.50"}', Data(3, decimal.Decimal("2.50"))),
        (Typed, JSON_ID, {"id": 3}),
        (Row, b'[3,"x"]', Row(3, "x")),
        (Colour, b'"red"', Colour.RED),
    ],
)
def test_types_are_read(wanted: Any, value: bytes, expected: object) -> None:
    found = decoder_for(wanted)(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (str, b"\xff"),
        (Annotated[str, msgspec.Meta(max_length=3)], b"abcd"),
        (Annotated[int, msgspec.Meta(gt=0)], b"0"),
        (Any, b"{"),
        (Any, b"NaN"),
        (Any, b""),
        (dict, b"[1]"),
        (Struct, b'{"id":"3"}'),
        (Data, b'{"id":"3"}'),
        (Data, b"{}"),
        (Typed, b'{"id":"3"}'),
        (Model, b'{"id":"x"}'),
        (WithModel, b'{"model":{"id":"x"}}'),
        (Colour, b'"blue"'),
    ],
)
def test_what_does_not_fit_raises(wanted: Any, value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (each library says it in its own words)
        decoder_for(wanted)(value)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (
            Service,
            r"Service is not a type that can be read from JSON: a msgspec Struct.*lambda value: Service\(value\)",
        ),
        (list[Service], r"list\[.*Service\] has a Service in it, and Service is not a type"),
        (WithForeign, "WithForeign has a Service in it"),
        (Struct | Tree, r"cannot be decoded: .*multiple"),
        (memoryview, "nothing is decoded to memoryview; for the value as it is take bytes"),
        (object, "nothing is decoded to object"),
    ],
)
def test_types_that_cannot_be_read_are_refused_at_once(wanted: Any, says: str) -> None:
    with pytest.raises(grete.ConfigError, match=says):
        decoder_for(wanted)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretends that libraries are not installed."""

    def hide(*libraries: str) -> None:
        import importlib.util

        real = importlib.util.find_spec
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in libraries else real(name))
        for name in list(sys.modules):
            if name.split(".")[0] in libraries:
                monkeypatch.setitem(sys.modules, name, None)

    return hide


def test_plain_json_needs_no_library(without: Callable[..., None]) -> None:
    without("msgspec", "pydantic")
    assert decoder_for(Any)(b'{"a":[1]}') == {"a": [1]}
    assert decoder_for(dict)(b"{}") == {}
    for value in (b"NaN", b"[Infinity]", b"\xff", b"{", "[1]".encode("utf-16")):
        with pytest.raises(ValueError):  # noqa: PT011
            decoder_for(Any)(value)
    with pytest.raises(ValueError, match="expected dict, got list"):
        decoder_for(dict)(b"[]")
    advice = r'decoding Data needs msgspec \(or pydantic\): pip install "grete\[msgspec\]"'
    with pytest.raises(grete.ConfigError, match=advice):
        decoder_for(Data)


def test_without_msgspec_pydantic_reads_the_same(without: Callable[..., None]) -> None:
    without("msgspec")
    assert decoder_for(Data)(b'{"id":3,"price":"2.50"}') == Data(3, decimal.Decimal("2.50"))
    assert decoder_for(Row)(b'[3,"x"]') == Row(3, "x")
    with pytest.raises(grete.ConfigError, match="Service cannot be decoded: Unable to generate"):
        decoder_for(Service)
    with pytest.raises(ValueError, match="id"):
        decoder_for(Data)(b'{"id":"3"}')


def test_types_inside_a_pydantic_class_are_as_lax_as_it_says() -> None:
    assert decoder_for(Model)(b'{"id":"3"}') == Model(id=3)
    assert decoder_for(ModelClass)(b'{"id":"3"}') == ModelClass(3)


class Shouting:
    """A user's own format."""

    output_type = str

    def decoder(self, topic: str) -> payloads.Decoder:
        return lambda value: f"{topic}: {value.decode().upper()}"


def parse(value: bytes) -> Data:
    return Data(int(value))


def decoded(payload: object, value: bytes, wants: Any = None) -> object:
    decoders = payloads.by_topic(payload, wants, ["orders"])
    assert decoders is not None
    return decoders["orders"](value)


def test_what_payload_may_be() -> None:
    assert payloads.by_topic(None, None, ["orders"]) is None
    assert decoded("json", b"[1]") == [1]
    assert decoded(payloads.json, b"[1]") == [1]
    assert payloads.json(b"[1]") == [1]
    assert decoded(Struct, JSON_ID) == Struct(3)
    assert decoded(list[Struct], b'[{"id":3}]') == [Struct(3)]
    assert decoded(None, JSON_ID, Struct) == Struct(3)
    assert decoded(lambda value: len(value), b"abc") == 3
    assert decoded(parse, b"3") == Data(3)
    assert decoded(int, b"3") == 3
    decoders = payloads.by_topic(Shouting(), None, ["orders", "clicks"])
    assert decoders is not None
    assert [decode(b"x") for decode in decoders.values()] == ["orders: X", "clicks: X"]
    with pytest.raises(AttributeError, match="has no attribute 'Xml'"):
        payloads.Xml  # noqa: B018


def text_of(value: bytes) -> str:
    return value.decode()


class Base(msgspec.Struct):
    id: int


class Special(Base):
    more: int = 0


@pytest.mark.parametrize(
    ("payload", "wants"),
    [
        (Struct, Struct),
        (Struct, Struct | None),
        (Struct | None, Struct),
        (Special, Base),
        (dict[str, int], dict),
        (dict, Mapping[str, int]),
        (list[Struct], typing.Sequence[Struct]),
        ("json", dict[str, Any]),
        ("json", list),
        ("json", Mapping[str, Any]),
        ("json", Typed),
        ("json", str | None),
        ("json", Annotated[dict[str, Any], 3]),
        (Struct, Annotated[Struct, 3] | None),
        (dict, Typed),
        (parse, Data),
        (lambda value: value, Data),
        (Shouting(), str),
        (print, Data),
    ],
)
def test_annotations_that_agree_with_the_payload(payload: object, wants: Any) -> None:
    assert payloads.by_topic(payload, wants, ["orders"])


@pytest.mark.parametrize(
    ("payload", "wants", "says"),
    [
        (Struct, Data, "payload=Struct gives Struct, and the function takes Data"),
        (Base, Special, "payload=Base gives Base, and the function takes Special"),
        (dict[str, int], dict[str, str], r"gives dict\[str, int\], and the function takes dict\[str, str\]"),
        ("json", Data, "leave payload out, and Data is read from JSON"),
        ("json", Row, "leave payload out, and Row is read from JSON"),
        ("json", bytes, "and the function takes bytes"),
        (payloads.json, Struct, "leave payload out"),
        (parse, Struct, "payload=parse gives Data, and the function takes Struct"),
        (Shouting(), bytes, "payload=Shouting gives str, and the function takes bytes"),
    ],
)
def test_annotations_that_contradict_the_payload_are_refused(payload: object, wants: Any, says: str) -> None:
    with pytest.raises(grete.ConfigError, match=says):
        payloads.by_topic(payload, wants, ["orders"])


@pytest.mark.parametrize("annotation", [Any, object])
@pytest.mark.parametrize("payload", ["json", Struct, lambda value: int(value[-2:-1])], ids=["json", "type", "function"])
def test_a_parameter_without_a_type_of_its_own_gets_the_payload(annotation: Any, payload: Any) -> None:
    found: list[object] = []
    app = grete.App("shop")

    def take(order: Any) -> None:
        found.append(order)

    take.__annotations__["order"] = annotation
    app.consumer("orders", payload=payload)(take)
    testing.consume(app, "orders", [b'{"id": 1}', b'{"id": 2}']).raise_first()
    kind = {"json": dict, Struct: Struct}.get(payload, int)
    assert [type(one) for one in found] == [kind, kind]


def test_a_parameter_without_a_type_of_its_own_gets_what_the_topic_declares() -> None:
    found: list[object] = []
    app = grete.App("shop")
    orders = app.topic("orders", value=Struct)

    @app.consumer(orders)
    def take(order: Any, key: grete.Key[str | None]) -> None:
        found.append(order)

    testing.consume(app, orders, [Struct(1)]).raise_first()
    assert found == [Struct(1)]
    with pytest.raises(grete.ConfigError, match='the function takes the payload, and topic "other" has no type'):
        app.consumer(orders, "other")(take)


def test_a_parameter_without_a_type_gets_messages_where_nothing_is_decoded() -> None:
    found: list[object] = []
    app = grete.App("shop")

    @app.consumer("orders")
    def take(messages: Any) -> None:
        found.append(messages)

    testing.consume(app, "orders", [b"1"]).raise_first()
    assert [type(one) for one in found] == [grete.Messages]


def test_a_parameter_without_an_annotation_is_refused_where_values_are_decoded() -> None:
    """It would get a batch, and a handler that takes it for a value fails at each record."""

    def charge(order):  # type: ignore[no-untyped-def]
        raise AssertionError(order)

    app = grete.App("shop")
    with pytest.raises(grete.ConfigError, match=r"order has no annotation, and .*order: Any .*order: grete\.Messages"):
        app.consumer("orders", payload="json")(charge)
    app.consumer("orders")(charge)


@pytest.mark.parametrize("wanted", [dict[str, object], list[object]])
def test_object_is_any_value(wanted: Any) -> None:
    value = b"[1]" if wanted == list[object] else b'{"a": [1]}'
    assert decoder_for(wanted)(value) in ([1], {"a": [1]})
