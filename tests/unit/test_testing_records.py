"""grete.testing: records, messages, and wrong arguments."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pydantic
import pytest

import grete
from grete import testing


@dataclasses.dataclass
class Order:
    id: int


class Struct(msgspec.Struct):
    id: int


class Model(pydantic.BaseModel):
    id: int


def test_a_message_has_what_it_is_given() -> None:
    message = testing.message(
        b"value",
        key="key",
        headers=[("a", b"1"), ("b", None), ("a", "2")],
        topic="orders",
        partition=3,
        offset=9,
        timestamp=1234,
    )
    assert isinstance(message, grete.Message)
    assert (message.topic, message.partition, message.offset, message.timestamp) == ("orders", 3, 9, 1234)
    assert (message.value, message.key) == (b"value", b"key")
    assert message.headers == (("a", b"1"), ("b", None), ("a", b"2"))
    with pytest.raises(grete.NoPayloadError):
        _ = message.payload


def test_a_message_without_anything_is_a_tombstone() -> None:
    message = testing.message()
    assert (message.value, message.key, message.headers, message.offset) == (None, None, (), 0)
    assert abs(message.timestamp / 1000 - datetime.now(UTC).timestamp()) < 60


@pytest.mark.parametrize("payload", [Order(1), Struct(1), Model(id=1), {"id": 1}])
def test_a_typed_value_is_encoded_and_is_the_payload(payload: Any) -> None:
    message = testing.message(payload)
    assert message.payload is payload
    assert message.value is not None
    assert msgspec.json.decode(message.value) == {"id": 1}


def test_a_payload_is_decoded_as_on_a_route() -> None:
    assert testing.message(b'{"id": 7}', payload=Order).payload == Order(7)
    assert testing.message(Order(7), payload="json").payload == {"id": 7}
    with pytest.raises(grete.DecodeError):
        _ = testing.message(b"?", payload=Order).payload


def test_values_are_encoded_by_a_given_function() -> None:
    assert testing.message(Order(7), encode=lambda order: b"#%d" % order.id).value == b"#7"
    assert testing.message(b"raw", encode=lambda order: b"never").value == b"raw"
    run = testing.consume(lambda messages: None, "orders", [Order(1), None], encode=lambda order: b"x")
    assert run.marked == [0, 1]
    with pytest.raises(TypeError, match="encode returned str"):
        testing.message(Order(7), encode=lambda order: "text")  # type: ignore[arg-type, return-value]


def test_messages_are_a_batch() -> None:
    messages = testing.messages(
        [b"1", testing.Record(Order(2), key="own", offset=8), None], key="k", topic="orders", partition=2, offset=5
    )
    assert isinstance(messages, grete.Messages)
    assert messages.offsets.tolist() == [5, 8, 9]
    assert messages.keys() == [b"k", b"own", b"k"]
    assert messages.high_watermark == 10
    assert messages[1].payload == Order(2)
    assert (messages[2].value, messages.topic, messages.partition) == (None, "orders", 2)
    assert len(testing.messages([])) == 0


def test_messages_can_be_consumed() -> None:
    seen: list[tuple[int, object]] = []

    def handle(message: grete.Message) -> None:
        seen.append((message.offset, message.headers))

    run = testing.consume(
        handle, "orders", testing.messages([b"1", b"2"], topic="orders", offset=4, headers={"a": "b"})
    )
    assert run.marked == [4, 5]
    assert seen == [(4, (("a", b"b"),)), (5, (("a", b"b"),))]


def test_timestamps_may_be_datetimes() -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    assert testing.message(b"", timestamp=at).timestamp == round(at.timestamp() * 1000)


def test_offsets_may_have_gaps() -> None:
    records = [testing.Record(b"1", offset=10), testing.Record(b"2", offset=20), b"3"]
    run = testing.consume(lambda messages: None, "orders", records)
    assert (run.offsets, run.marked, run.committed) == ([10, 20, 21], [10, 20, 21], 22)


@pytest.mark.parametrize(
    ("records", "match"),
    [
        ([testing.Record(b"", topic="other")], 'of topic "other" is among those of "orders"'),
        ([testing.Record(b"", partition=1), testing.Record(b"", partition=2)], "call consume for each"),
        ([testing.Record(b"", offset=3), testing.Record(b"", offset=3)], "offsets ascend"),
    ],
)
def test_records_that_do_not_belong_together(records: list[Any], match: str) -> None:
    with pytest.raises(grete.GreteError, match=match):
        testing.consume(lambda messages: None, "orders", records)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"records": b"bytes"}, "come as a list"),
        ({"records": 3}, "come as a list"),
        ({"records": [object()]}, "no JSON form"),
        ({"records": [b""], "key": 3}, "a key is bytes, text or None, not int"),
        ({"records": [b""], "headers": {3: b""}}, "name of a header is a str"),
        ({"records": [b""], "headers": {"a": 3}}, "header's value is bytes"),
        ({"topic": 3}, "a topic is a str or a grete.Topic, not int"),
        ({"handler": 3}, "an App, a consumer class or a function, not int"),
        ({"handler": grete.Consumer()}, "give the class, Consumer, not an instance"),
    ],
)
def test_wrong_types(arguments: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {"handler": lambda messages: None, "topic": "orders", "records": [b"1"]} | arguments
    with pytest.raises(TypeError, match=match):
        testing.consume(**given)


def test_an_app_that_does_not_read_the_topic() -> None:
    app = grete.App("shop")
    app.consumer("orders")(lambda messages: None)
    with pytest.raises(grete.ConfigError, match='does not read "order", only orders; did you mean "orders"'):
        testing.consume(app, "order", [b"1"])
    with pytest.raises(grete.ConfigError, match=r'has no group "shopp".*did you mean "shop"'):
        testing.consume(app, "orders", [b"1"], group="shopp")
    with pytest.raises(TypeError, match="retry: the routes of an App have their settings already"):
        testing.consume(app, "orders", [b"1"], retry=grete.Retry(1))
    with pytest.raises(ValueError, match="end is 'shutdown'"):
        testing.consume(app, "orders", [b"1"], end="never")  # type: ignore[arg-type]


def test_a_topic_that_several_groups_read() -> None:
    app = grete.App("shop")
    app.consumer("orders", group="a", dead_letter="a.dlq")(lambda messages: None)
    app.consumer("orders", group="b")(lambda messages: 1 / 0)
    with pytest.raises(grete.GreteError, match="read in the groups a, b: name one with group="):
        testing.consume(app, "orders", [b"1"])
    assert testing.consume(app, "orders", [b"1"], group="a").marked == [0]
    assert testing.consume(app, "orders", [b"1"], group="b").marked == []


def test_routes_that_are_added_later_are_found() -> None:
    app = grete.App("shop")
    app.consumer("orders")(lambda messages: None)
    assert testing.consume(app, "orders", [b"1"]).marked == [0]
    app.consumer("clicks")(lambda messages: None)
    assert testing.consume(app, "clicks", [b"1"]).marked == [0]


def test_wrong_settings_name_the_line_of_the_test() -> None:
    with pytest.raises(grete.ConfigError, match=r"test_testing_records\.py:\d+: .*no setting .?max_message"):
        testing.consume(lambda messages: None, "orders", [b"1"], max_message=3)  # type: ignore[call-arg]


def test_the_environment_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRETE_MAX_MESSAGES", "1")
    calls: list[int] = []
    app = grete.App("quiet")
    app.consumer("orders")(lambda messages: calls.append(len(messages)))
    testing.consume(app, "orders", [b"1", b"2"])
    assert calls == [2]


@pytest.mark.parametrize(("made", "cure"), [(grete.Message, "message"), (grete.Messages, "messages")])
def test_a_constructor_names_what_makes_records(made: Callable[..., object], cure: str) -> None:
    with pytest.raises(TypeError, match=rf"grete\.testing\.{cure}\("):
        made(b"value", key=b"key")
