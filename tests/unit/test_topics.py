"""Topics that are declared with their types: encoders of each format, and producers that take topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

import grete
from grete import payloads, testing
from grete.payloads.encode import Encoder, Part
from tests.unit.test_declarations import here


class Struct(msgspec.Struct):
    id: int


class Other(msgspec.Struct):
    id: int


class Model(pydantic.BaseModel):
    id: int


class Alias(pydantic.BaseModel):
    number: int = pydantic.Field(serialization_alias="id")


@dataclass
class Data:
    id: int


class Typed(TypedDict):
    id: int


class Pair(NamedTuple):
    id: int
    name: str


class Plain:
    pass


class Reversed:
    """A format of the user's own, with a header."""

    def decoder(self, topic: str, part: str = "value") -> payloads.Decoder:
        return lambda value: value[::-1].decode()

    def encoder(self, topic: str, part: Part = "value") -> Encoder:
        def encode(value: str) -> bytes:
            return value.encode()[::-1]

        encode.headers = lambda: [("format", part.encode())]  # type: ignore[attr-defined]
        return encode


@pytest.mark.parametrize(
    ("spec", "value", "encoded"),
    [
        (Struct, Struct(1), b'{"id":1}'),
        (Struct | Other, Other(1), b'{"id":1}'),
        (Model, Model(id=1), b'{"id":1}'),
        (Alias, Alias(number=1), b'{"number":1}'),
        (Model | Struct, Model(id=1), b'{"id":1}'),
        (Data, Data(1), b'{"id":1}'),
        (Typed, {"id": 1}, b'{"id":1}'),
        (Pair, Pair(1, "a"), b'[1,"a"]'),
        (dict, {"id": 1}, b'{"id":1}'),
        (dict[str, int], {"id": 1}, b'{"id":1}'),
        (list[Struct], [Struct(1)], b'[{"id":1}]'),
        (str, "é", "é".encode()),
        (bytes, b"raw", b"raw"),
        (bytes, memoryview(b"raw"), b"raw"),
        (int, 5, b"5"),
        (float, 1.5, b"1.5"),
        (float, 1, b"1"),
        (Literal["a", "b"], "a", b"a"),
        ("json", {"id": [1, None]}, b'{"id":[1,null]}'),
        ("json", "text", b'"text"'),
        (payloads.json, "text", b"text"),
        (lambda value: f"<{value}>".encode(), 3, b"<3>"),
        (lambda value: bytearray(value), b"3", b"3"),
        (Reversed(), "ab", b"ba"),
        (None, Struct(1), b'{"id":1}'),
        (None, Model(id=1), b'{"id":1}'),
        (None, "text", b"text"),
        (None, b"raw", b"raw"),
        (None, 3, b"3"),
    ],
)
def test_encoders(spec: Any, value: Any, encoded: bytes) -> None:
    encode = payloads.encoder_for(spec, "orders")
    assert encode(value) == encoded
    assert type(encode(value)) is bytes


@pytest.mark.parametrize("spec", [Struct, Model, Data, Typed, dict, str, bytes, int, "json", None, Struct | None])
def test_none_is_a_tombstone(spec: Any) -> None:
    assert payloads.encoder_for(spec, "orders")(None) is None


@pytest.mark.parametrize(
    ("spec", "value", "says"),
    [
        (Struct, Other(1), 'a value of topic "orders" is Struct, not Other: produce a Struct, or declare the topic'),
        (Model, {"id": 1}, "is Model, not dict"),
        (str, b"raw", "is str, not bytes"),
        (bytes, "text", "is bytes, not str"),
        (int, "5", "is int, not str"),
        (dict, [1], "is dict, not list"),
        (dict, {"at": object()}, 'a value of topic "orders" cannot be encoded: dict: .*object'),
        ("json", object(), "cannot be encoded: object"),
        (None, Plain(), "cannot be encoded: Plain: Plain has no JSON form"),
        (lambda value: "text", 3, "returned str: it returns bytes"),
        (lambda value: 1 / 0, 3, "division by zero"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(spec: Any, value: Any, says: str) -> None:
    encode = payloads.encoder_for(spec, "orders")
    with pytest.raises(grete.EncodeError, match=says) as caught:
        encode(value)
    assert (caught.value.topic, caught.value.part, caught.value.type) == ("orders", "value", type(value))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"value": Plain}, 'topic "orders": Plain has no JSON form: a msgspec Struct, a pydantic model'),
        ({"key": "text"}, "key='text': the only format with a short name is \"json\""),
        ({"value": 3}, "value=3 cannot be written"),
        ({"value": str | Struct}, "mixes text or bytes with other types"),
        ({"value": lambda value: value}, "is a function, which cannot both read and write"),
        ({"value": object}, "nothing is encoded from object"),
        ({"partitions": 0}, 'topic "orders": partitions=0: it is a whole number from 1 up'),
        ({"replication": True}, "replication=True"),
        ({"config": "retention.ms=1"}, "config is a dict of Kafka's settings"),
    ],
)
def test_a_topic_that_cannot_work_is_refused_where_it_is_declared(settings: dict[str, Any], says: str) -> None:
    app = grete.App("shop")
    with pytest.raises(grete.ConfigError, match=says) as caught:
        app.topic("orders", **settings)  # the declaration
    place = here("# the declaration", test_a_topic_that_cannot_work_is_refused_where_it_is_declared)
    assert caught.value.location is not None
    assert caught.value.location.endswith(place.replace("test_declarations", "test_topics").rpartition("/")[2])
    assert not app.topics


def test_a_topic_is_declared_once() -> None:
    app = grete.App("shop")
    first = app.topic("orders", key=str, value=Struct, partitions=8, config={"retention.ms": 3600, "a": True})
    assert app.topics == {"orders": first}
    assert (first.partitions, first.replication, first.config) == (8, None, {"retention.ms": "3600", "a": "true"})
    with pytest.raises(grete.ConfigError, match=r'topic "orders" is declared already, at .*test_topics\.py:\d+'):
        app.topic("orders")
    with pytest.raises(grete.ConfigError, match="no topic name"):
        app.topic("a b")


def test_a_topic_brings_its_type_to_a_consumer() -> None:
    app = grete.App("shop")
    orders = app.topic("orders", value=Struct)
    seen: list[object] = []

    @app.consumer(orders)
    def take(message: grete.Message) -> None:
        seen.append(message.payload)

    testing.consume(app, orders, [Struct(1), b'{"id":2}', None])
    assert seen == [Struct(1), Struct(2), None]


def test_a_consumer_may_read_topics_of_different_types() -> None:
    app = grete.App("shop")
    one, two = app.topic("one", value=Struct), app.topic("two", value=Other)
    seen: list[object] = []

    @app.consumer(one, two)
    def take(order: Struct | Other) -> None:
        seen.append(order)

    testing.consume(app, one, [Struct(1)])
    testing.consume(app, two, [Other(2)])
    assert seen == [Struct(1), Other(2)]


def test_an_annotation_that_contradicts_the_topic_is_refused() -> None:
    app = grete.App("shop")
    orders = app.topic("orders", key=str, value=Struct)
    says = 'topic "orders": value=Struct gives Struct, and the function takes Other'
    with pytest.raises(grete.ConfigError, match=says):

        @app.consumer(orders)
        def take(order: Other) -> None:
            """Nothing."""

    with pytest.raises(grete.ConfigError, match='topic "orders": key=str gives str, and the function'):

        @app.consumer(orders)
        def keyed(order: Struct, key: grete.Key[int]) -> None:
            """Nothing."""


class Producing(grete.Consumer):
    calls: ClassVar[list[Any]] = []

    def consume(self) -> None:
        for call in self.calls:
            call(self.producer)


def produced(*calls: Any, app: grete.App | None = None) -> testing.Run:
    class Calls(Producing):
        pass

    Calls.calls = list(calls)
    return testing.consume(Calls, "in", [b"1"], retry=grete.Retry(1))


def records(run: testing.Run, topic: Any) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in run.produced[topic]]


def test_producers_take_topics_and_objects() -> None:
    orders = grete.App("shop").topic("orders", key=int, value=Struct)
    run = produced(
        lambda producer: producer.produce(orders, Struct(1), key=5),
        lambda producer: producer.produce(orders, None, key=6),
        lambda producer: producer.produce_many(orders, [Struct(2), grete.Record(Struct(3), key=7), None]),
        lambda producer: producer.produce_many(orders, [Struct(4), Struct(5)], keys=[8, None]),
        lambda producer: producer.produce_many(orders, [Struct(6)], key=9),
        lambda producer: producer.produce_many("raw", [b"a", b"b"], keys=[b"k", None]),
    )
    run.raise_first()
    assert records(run, orders) == [
        (b"5", b'{"id":1}'),
        (b"6", None),
        (None, b'{"id":2}'),
        (b"7", b'{"id":3}'),
        (None, None),
        (b"8", b'{"id":4}'),
        (None, b'{"id":5}'),
        (b"9", b'{"id":6}'),
    ]
    assert records(run, "raw") == [(b"k", b"a"), (None, b"b")]


def test_records_that_were_read_go_on_unchanged_to_a_topic() -> None:
    app = grete.App("shop")
    copies = app.topic("copies", value=Struct)

    @app.consumer("in")
    class Forward(grete.Consumer):
        def consume(self) -> None:
            self.producer.produce_many(copies, self.messages)

    run = testing.consume(app, "in", [b"not json"], key="k")
    assert records(run, copies) == [(b"k", b"not json")]


def test_formats_add_their_headers() -> None:
    orders = grete.App("shop").topic("orders", key=Reversed(), value=Reversed())
    run = produced(
        lambda producer: producer.produce(orders, "ab", key="cd", headers={"own": b"1"}),
        lambda producer: producer.produce_many(orders, ["ef"]),
        lambda producer: producer.produce(orders, None, key="gh"),
    )
    run.raise_first()
    first, second, third = run.produced[orders]
    assert (third.value, third.headers) == (None, (("format", b"key"),))
    assert (first.value, first.key) == (b"ba", b"dc")
    assert first.headers == (("own", b"1"), ("format", b"key"), ("format", b"value"))
    assert second.headers == (("format", b"value"),)


def test_results_have_the_headers_of_their_format() -> None:
    app = grete.App("shop")
    codes = app.topic("codes", key=Reversed(), value=Reversed())

    @app.consumer("in", publish=codes)
    def take(message: grete.Message) -> list[str | grete.Record[str]]:
        return ["ab", grete.Record("cd", key="ef")]

    run = testing.consume(app, "in", [b"1"], key="raw")
    run.raise_first()
    assert run.published == ["ab", "cd"]
    assert run.produced[codes].keys() == [b"raw", b"fe"]
    assert [record.headers for record in run.produced[codes]] == [
        (("format", b"value"),),
        (("format", b"key"), ("format", b"value")),
    ]


def test_keys_whose_format_has_headers_come_with_their_records() -> None:
    orders = grete.App("shop").topic("orders", key=Reversed(), value=Reversed())
    run = produced(lambda producer: producer.produce_many(orders, ["ab"], keys=["cd"]))
    with pytest.raises(grete.ConfigError, match=r"give grete\.Record\(value, key=\.\.\.\) objects"):
        run.raise_first()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda p, t: p.produce(t, Other(1)), grete.EncodeError, "is Struct, not Other"),
        (lambda p, t: p.produce(t, Struct(1), key="a"), grete.EncodeError, "a key of topic"),
        (lambda p, t: p.produce_sync(t, Other(1)), grete.EncodeError, "is Struct, not Other"),
        (lambda p, t: p.produce_many(t, [Struct(1), Other(1)]), grete.EncodeError, "is Struct, not Other"),
        (
            lambda p, t: p.produce_many(t, Struct(1)),
            TypeError,
            "produce_many takes a sequence of records, not one Struct",
        ),
        (lambda p, t: p.produce_many(t, "text"), TypeError, "produce_many takes a sequence of records, not one str"),
        (lambda p, t: p.produce_many("raw", [b"a"], keys=[]), grete.RecordTypeError, "1 values and 0 keys"),
        (lambda p, t: p.produce_many("raw", [b"a"], key=b"k", keys=[b"k"]), grete.RecordTypeError, "leave one out"),
        (lambda p, t: p.produce_many("raw", [b"a"], keys=["k"]), grete.RecordTypeError, "record 0 .*its key is a str"),
        (lambda p, t: p.produce(Plain(), b"a"), grete.RecordTypeError, "a topic is a str or a grete.Topic, not Plain"),
    ],
)
def test_what_a_topic_does_not_take_is_not_produced(call: Any, error: type[Exception], says: str) -> None:
    orders = grete.App("shop").topic("orders", key=int, value=Struct)
    run = produced(lambda producer: call(producer, orders))
    with pytest.raises(error, match=says):
        run.raise_first()
    assert not run.produced


def test_send_takes_topics() -> None:
    app = grete.App("shop")
    orders = app.topic("orders", key=str, value=Struct)

    @app.consumer("in")
    async def take(message: grete.Message, producer: grete.Producer) -> None:
        delivery = await producer.send(orders, Struct(1), key="k")
        assert delivery.outcome == "written"

    run = testing.consume(app, "in", [b"1"])
    run.raise_first()
    assert records(run, orders) == [(b"k", b'{"id":1}')]


def test_the_producer_of_an_app_works_while_the_app_runs() -> None:
    app = grete.App("shop")
    orders = app.topic("orders", value=Struct)
    producer = app.producer  # may be kept

    @app.consumer("in")
    def take(message: grete.Message) -> None:
        producer.produce(orders, Struct(1))

    with pytest.raises(grete.GreteError, match=r'App "shop" does not run, and its producer works while it runs: start'):
        producer.produce(orders, Struct(1))
    run = testing.consume(app, "in", [b"1"])
    run.raise_first()
    assert run.produced[orders].payloads() == [Struct(1)]
    with pytest.raises(grete.GreteError, match="does not run"):
        producer.flush()
