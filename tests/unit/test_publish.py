"""Results of handlers: written to the topic of `publish=`, and marked when they are written."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec
import pytest

import grete
from grete import testing


class Order(msgspec.Struct):
    id: int


class Invoice(msgspec.Struct):
    order: int


ONCE = grete.Retry(1)


def one(order: Order) -> Invoice | None:
    return Invoice(order.id) if order.id else None


def listed(order: Order) -> list[Invoice]:
    return [Invoice(order.id), Invoice(order.id * 10)] if order.id else []


def generated(order: Order) -> Iterator[Invoice]:
    if order.id:
        yield Invoice(order.id)
        yield Invoice(order.id * 10)


async def later(order: Order) -> Invoice | None:
    await asyncio.sleep(0)
    return one(order)


async def later_listed(order: Order) -> list[Invoice]:
    await asyncio.sleep(0)
    return listed(order)


async def later_generated(order: Order) -> AsyncIterator[Invoice]:
    for invoice in generated(order):
        await asyncio.sleep(0)
        yield invoice


def by_message(message: grete.Message[Order]) -> Invoice | None:
    return one(message.payload)


def batch(orders: grete.Batch[Order]) -> list[Invoice | None]:
    return [one(order) for order in orders]


def batch_of_messages(messages: grete.Messages) -> list[Invoice | None]:
    return [one(order) for order in messages.payloads()]


def batch_generated(orders: grete.Batch[Order]) -> Iterator[Invoice | None]:
    yield from map(one, orders)


async def later_batch(orders: grete.Batch[Order]) -> list[Invoice | None]:
    await asyncio.sleep(0)
    return batch(orders)


async def later_batch_generated(orders: grete.Batch[Order]) -> AsyncIterator[Invoice | None]:
    for order in orders:
        await asyncio.sleep(0)
        yield one(order)


class Class(grete.Consumer):
    def consume(self) -> list[Invoice | None]:  # type: ignore[override]
        return [one(message.payload) for message in self.messages]


class LaterClass(grete.Consumer):
    async def consume(self) -> list[Invoice | None]:  # type: ignore[override]
        await asyncio.sleep(0)
        return [one(message.payload) for message in self.messages]


def declared() -> tuple[grete.App, grete.Topic[str, Order], grete.Topic[str, Invoice]]:
    app = grete.App("shop")
    return app, app.topic("orders", key=str, value=Order), app.topic("invoices", key=str, value=Invoice)


def publish(handler: Any, *records: Any, key: str | None = None, **settings: Any) -> testing.Run:
    app, orders, invoices = declared()
    app.consumer(orders, **{"publish": invoices, "retry": ONCE, "dead_letter": "dlq", **settings})(handler)
    return testing.consume(app, orders, records, key=key)


INPUT = [
    testing.Record(Order(1), "a"),
    testing.Record(Order(0), "b"),
    testing.Record(Order(2)),
    testing.Record(Order(3), "c"),
]
EACH = [(b"a", 1), (None, 2), (b"c", 3)]
TWICE = [(b"a", 1), (b"a", 10), (None, 2), (None, 20), (b"c", 3), (b"c", 30)]


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (one, EACH),
        (listed, TWICE),
        (generated, TWICE),
        (later, EACH),
        (later_listed, TWICE),
        (later_generated, TWICE),
        (by_message, EACH),
        (batch, EACH),
        (batch_of_messages, EACH),
        (batch_generated, EACH),
        (later_batch, EACH),
        (later_batch_generated, EACH),
        (Class, EACH),
        (LaterClass, EACH),
    ],
)
def test_results_have_the_key_of_their_record(handler: Any, expected: list[tuple[bytes | None, int]]) -> None:
    run = publish(handler, *INPUT)
    run.raise_first()
    assert run.marked == [0, 1, 2, 3]
    written = zip(run.produced["invoices"].keys(), run.published, strict=True)
    assert [(key, invoice.order) for key, invoice in written] == expected


@pytest.mark.parametrize("handler", [one, later, batch, later_batch, Class, LaterClass, generated, later_generated])
def test_a_record_is_marked_when_its_result_is_written(handler: Any) -> None:
    app, orders, invoices = declared()
    app.consumer(orders, publish=invoices, retry=ONCE, dead_letter="dlq")(handler)
    run = testing.consume(app, orders, [Order(1), Order(2), Order(3)], fail_delivery=["invoices"])
    assert run.marked == []
    assert [(letter.offset, letter.error) for letter in run.dead] == [(at, "DeliveryError") for at in range(3)]


def test_one_result_that_is_refused_fails_its_own_record() -> None:
    app, orders, invoices = declared()
    calls: list[int] = []

    @app.consumer(orders, publish=invoices, retry=ONCE, dead_letter="dlq")
    def charge(order: Order) -> Invoice:
        calls.append(order.id)
        return Invoice(order.id)

    run = testing.consume(app, orders, [Order(1), Order(2), Order(3)], fail_delivery={"invoices": 1})
    assert [letter.offset for letter in run.dead] == [0]
    assert run.marked == [1, 2]
    assert run.attempts[0] == 1


def test_a_record_says_more_than_its_value() -> None:
    def charge(order: Order) -> Iterator[Invoice | grete.Record[Invoice] | None]:
        yield grete.Record(Invoice(1))
        yield grete.Record(Invoice(2), key="other")
        yield grete.Record(Invoice(3), key=None, headers={"h": b"1"}, timestamp=5)
        yield grete.Record(None)
        yield None

    run = publish(charge, Order(1), key="k")
    run.raise_first()
    found = run.produced["invoices"]
    assert found.keys() == [b"k", b"other", None, b"k"]
    assert found.values() == [b'{"order":1}', b'{"order":2}', b'{"order":3}', None]
    assert (found[2].headers, found[2].timestamp) == ((("h", b"1"),), 5)


def test_a_batch_of_records_with_their_own_keys_has_any_length() -> None:
    def totals(orders: grete.Batch[Order]) -> list[grete.Record[Invoice]]:
        return [grete.Record(Invoice(sum(order.id for order in orders)), key="total")]

    run = publish(totals, Order(1), Order(2))
    run.raise_first()
    assert (run.produced["invoices"].keys(), run.published) == ([b"total"], [Invoice(3)])


@pytest.mark.parametrize(
    ("result", "says", "got"),
    [
        ([Invoice(1)], "take was given 2 records and returned 1 value: return one for each record, in order", 1),
        ([Invoice(1), Invoice(2), Invoice(3)], "returned 3 values", 3),
        (Invoice(1), "was given a batch and returned one Invoice: return a list", None),
        ([grete.Record(Invoice(1))], "or grete.Record", 1),
    ],
)
@pytest.mark.parametrize("attempts", [1, 5])
def test_a_batch_with_a_wrong_number_of_results_fails_at_once(
    result: Any, says: str, got: int | None, attempts: int
) -> None:
    def take(messages: grete.Messages) -> Any:
        return result

    run = publish(take, Order(1), Order(2), max_messages=2, retry=grete.Retry(attempts))
    [error] = run.errors  # not bisected, for a batch of one record may fit by chance, and not retried
    assert isinstance(error, grete.BatchResultError)
    assert says in str(error)
    assert (error.handler, error.expected, error.got) == ("take", 2, got)
    assert ([letter.offset for letter in run.dead], run.published) == ([0, 1], [])


@pytest.mark.parametrize(
    ("annotation", "errors"), [(list[Invoice | None], 1), (list[grete.Record[Invoice]], 0), (Any, 0)]
)
def test_a_batch_without_results_fails_unless_they_may_be_records_with_their_own_keys(
    annotation: Any, errors: int
) -> None:
    def take(messages: grete.Messages) -> Any:
        return []

    take.__annotations__["return"] = annotation
    run = publish(take, Order(1), Order(2), max_messages=2)
    assert [type(error) for error in run.errors] == [grete.BatchResultError] * errors
    assert (len(run.dead), run.published) == (2 * errors, [])


def test_an_async_batch_with_a_wrong_number_of_results_fails_at_once() -> None:
    async def take(messages: grete.Messages) -> Any:
        return [Invoice(1)]

    run = publish(take, Order(1), Order(2), max_messages=2)
    [error] = run.errors
    assert isinstance(error, grete.BatchResultError)
    assert (error.handler, error.expected, error.got) == ("take", 2, 1)
    assert [letter.offset for letter in run.dead] == [0, 1]


def test_a_batch_with_a_value_of_another_type_is_bisected() -> None:
    def take(messages: grete.Messages) -> Any:
        return [Order(2) if order.id == 2 else Invoice(order.id) for order in messages.payloads()]

    run = publish(take, Order(1), Order(2), max_messages=2)
    assert 'a value of topic "invoices" is Invoice, not Order' in str(run.errors[0])
    assert run.failures[0].outcome == "bisect"
    assert ([letter.offset for letter in run.dead], run.published) == ([1], [Invoice(1)])


@pytest.mark.parametrize("handler", [lambda order: Order(1), lambda order: "text", lambda order: [Order(1)]])
def test_a_result_of_another_type_fails_the_record(handler: Callable[[Any], Any]) -> None:
    def take(order: Order) -> Any:
        return handler(order)

    run = publish(take, Order(1))
    assert isinstance(run.errors[0], grete.EncodeError)
    assert (run.marked, [letter.offset for letter in run.dead], run.published) == ([], [0], [])


def test_a_plain_function_that_returns_a_coroutine_is_told() -> None:
    def take(order: Order) -> Any:
        return later(order)

    run = publish(take, Order(1))
    assert "returned coroutine, which needs an event loop: make the handler async def" in str(run.errors[0])


def test_a_topic_by_name_takes_the_type_of_the_annotation() -> None:
    def charge(order: Order) -> Invoice:
        return Invoice(order.id) if order.id else Order(1)  # type: ignore[return-value]

    run = testing.consume(charge, "orders", [Order(1), Order(0)], publish="invoices", retry=ONCE, dead_letter="dlq")
    assert run.published == [Invoice(1)]
    assert run.dead[0].error == "EncodeError"


def test_a_name_that_the_app_declares_is_that_topic() -> None:
    app, orders, _ = declared()

    @app.consumer(orders, publish="invoices")
    def charge(batch: grete.Messages):  # type: ignore[no-untyped-def]
        return [Invoice(message.payload.id) for message in batch]

    run = testing.consume(app, orders, [Order(1)], key="k")
    assert (run.published, run.produced["invoices"].keys()) == ([Invoice(1)], [b"k"])


def test_a_topic_of_lists_takes_a_list_as_one_value() -> None:
    app = grete.App("shop")
    lists = app.topic("lists", value=list[int])

    @app.consumer("orders", publish=lists)
    def take(order: Order) -> list[int]:
        return [order.id, order.id]

    run = testing.consume(app, "orders", [Order(1), Order(2)])
    assert run.published == [[1, 1], [2, 2]]


def test_a_provider_ends_after_the_result_is_taken() -> None:
    log: list[str] = []

    def session() -> Iterator[str]:
        yield "open"
        log.append("closed")

    def charge(order: Order, session: Annotated[str, grete.Depends(session)]) -> Iterator[Invoice]:
        assert not log
        yield Invoice(1)

    assert publish(charge, Order(1)).published == [Invoice(1)]
    assert log == ["closed"]


@pytest.mark.parametrize("handler", [one, later])
def test_events_of_records_surround_the_result(handler: Any) -> None:
    app, orders, invoices = declared()
    app.consumer(orders, publish=invoices)(handler)
    heard: list[int] = []
    app.monitor.subscribe("message.processed", lambda event: heard.append(event["offset"]))
    run = testing.consume(app, orders, [Order(1), Order(2)])
    assert (heard, run.published) == ([0, 1], [Invoice(1), Invoice(2)])


def returns(order: Order) -> Invoice:
    return Invoice(1)


async def later_returns(order: Order) -> Invoice:
    return Invoice(1)


def returns_awaitable(order: Order) -> Awaitable[Invoice]:
    return later_returns(order)


class ClassReturns(grete.Consumer):
    def consume(self) -> list[Invoice]:  # type: ignore[override]
        return []


def one_of_batch(orders: grete.Batch[Order]) -> Invoice | None:
    return Invoice(1)


async def later_one_of_batch(orders: grete.Batch[Order]) -> dict[str, int]:
    return {}


def one_record_of_batch(messages: grete.Messages) -> grete.Record[Invoice]:
    return grete.Record(Invoice(1), key="a")


class OneOfClass(grete.Consumer):
    def consume(self) -> Invoice:  # type: ignore[override]
        return Invoice(1)


def nothing(order: Order) -> None:
    """Nothing."""


@pytest.mark.parametrize(
    ("handler", "settings", "says"),
    [
        (returns, {}, r"returns returns Invoice, and its route publishes nothing.*publish=\"invoices\", or annotate"),
        (later_returns, {}, "later_returns returns Invoice"),
        (returns_awaitable, {}, "returns_awaitable returns Invoice"),
        (ClassReturns, {}, r"ClassReturns\.consume returns list\["),
        (generated, {}, "generated has a yield in it, and its route publishes nothing: calling it would run none"),
        (later_generated, {}, "has a yield in it"),
        (nothing, {"publish": "invoices"}, 'publish="invoices", and nothing returns None'),
        (
            one_of_batch,
            {"publish": "invoices"},
            r"is given a batch and returns one .*Invoice: return a list .*-> list\[",
        ),
        (later_one_of_batch, {"publish": "invoices"}, r"is given a batch and returns one dict\[str, int\]"),
        (one_record_of_batch, {"publish": "invoices"}, "is given a batch and returns one .*Record"),
        (OneOfClass, {"publish": "invoices"}, r"OneOfClass\.consume is given a batch and returns one"),
        (returns, {"publish": "orders"}, 'publish="orders" is a topic that the route reads'),
        (returns, {"publish": "a b"}, "no topic name"),
        (returns, {"publish": 3}, "a topic is a string, not 3"),
    ],
)
def test_results_without_a_place_are_refused(handler: Any, settings: dict[str, Any], says: str) -> None:
    app = grete.App("shop")
    with pytest.raises(grete.ConfigError, match=says) as caught:
        app.consumer("orders", payload=Order, **settings)(handler)
    assert str(caught.value).startswith(str(caught.value.location))


def lists(orders: grete.Batch[Order]) -> list[Invoice]:
    return []


def optional_tuples(orders: grete.Batch[Order]) -> tuple[Invoice, ...] | None:
    return None


def sequences(orders: grete.Batch[Order]) -> Sequence[Invoice]:
    return []


async def later_iterables(orders: grete.Batch[Order]) -> Iterable[Invoice]:
    return []


def yields_results(orders: grete.Batch[Order]) -> Iterator[Invoice]:
    yield Invoice(1)


async def later_yields(orders: grete.Batch[Order]) -> AsyncIterator[Invoice]:
    yield Invoice(1)


@pytest.mark.parametrize("handler", [lists, optional_tuples, sequences, later_iterables, yields_results, later_yields])
def test_a_batch_returns_anything_that_holds_several_values(handler: Any) -> None:
    app = grete.App("shop")
    app.consumer("orders", publish="invoices")(handler)
    assert app.routes[0].publish == "invoices"


def test_a_result_that_contradicts_the_topic_is_refused() -> None:
    app, orders, _ = declared()
    with pytest.raises(
        grete.ConfigError, match='charge returns Invoice, and topic "copies" takes Order: return a value of type Order,'
    ):

        @app.consumer(orders, publish=app.topic("copies", value=Order))
        def charge(order: Order) -> Invoice:
            return Invoice(1)


def dropped(order: Order):  # type: ignore[no-untyped-def]
    return order.id


def dropped_message(message: grete.Message):  # type: ignore[no-untyped-def]
    return message.offset


def dropped_batch(messages: grete.Messages):  # type: ignore[no-untyped-def]
    return len(messages)


async def later_dropped(order: Order):  # type: ignore[no-untyped-def]
    return order.id


def dropped_more(order: Order, offset: grete.Offset):  # type: ignore[no-untyped-def]
    return offset


class DroppedClass(grete.Consumer):
    def consume(self):  # type: ignore[no-untyped-def]
        return 3


@pytest.mark.parametrize(
    "handler", [dropped, dropped_message, dropped_batch, later_dropped, dropped_more, DroppedClass]
)
def test_a_result_without_a_place_is_logged_once(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "grete")
    app = grete.App("shop")
    app.consumer("orders", max_messages=1)(handler)
    testing.consume(app, "orders", [Order(1), Order(2), Order(3)]).raise_first()
    (line,) = caplog.messages
    assert "returned int, which is dropped: its route has no publish=" in line


class SubInvoice(Invoice):
    pass


def mixed(order: Order) -> Any:
    return {
        0: None,
        1: Invoice(1),
        2: [Invoice(2), Invoice(20)],
        3: grete.Record(Invoice(3), key="own"),
        4: SubInvoice(4),
        5: "text",
    }[order.id]


def mixed_with_key(order: Order, key: grete.Key[str | None]) -> Any:
    return mixed(order)


@pytest.mark.parametrize(("handler", "is_native"), [(mixed, True), (mixed_with_key, False)])
@pytest.mark.parametrize("listens", [False, True])
def test_all_kinds_of_results_of_one_handler(handler: Any, is_native: bool, listens: bool) -> None:
    app, orders, invoices = declared()
    app.consumer(orders, publish=invoices, retry=ONCE, dead_letter="dlq")(handler)
    plan = app.routes[0].plan
    assert plan is not None
    assert plan.publishes_payloads == is_native
    heard: list[int] = []
    if listens:
        app.monitor.subscribe("message.processed", lambda event: heard.append(event["offset"]))
    records = [testing.Record(Order(number), f"k{number}") for number in (1, 0, 2, 3, 4, 5, 1)]
    run = testing.consume(app, orders, records)
    assert run.produced["invoices"].keys() == [b"k1", b"k2", b"k2", b"own", b"k4", b"k1"]
    assert [invoice.order for invoice in run.published] == [1, 2, 20, 3, 4, 1]
    assert ([letter.offset for letter in run.dead], run.committed) == ([5], 7)
    assert 'a value of topic "invoices" is Invoice, not str' in str(run.errors[0])
    assert bool(heard) == listens


def test_a_payload_that_does_not_decode_fails_alone_where_results_are_published() -> None:
    run = publish(one, Order(1), b"{", Order(2), max_messages=3)
    [error] = run.errors
    assert isinstance(error, grete.DecodeError)
    assert (error.offset, [letter.offset for letter in run.dead], run.committed) == (1, [1], 3)
    assert run.published == [Invoice(1), Invoice(2)]


def test_the_encoders_interrupt_is_no_failure_of_the_record() -> None:
    class Stops(msgspec.Struct):
        order: int

    def interrupted(value: Any) -> bytes:
        raise KeyboardInterrupt

    class Format:
        output_type = Stops

        def decoder(self, topic: str) -> Any:
            return msgspec.json.Decoder(Stops).decode

        def encoder(self, topic: str, part: str = "value") -> Any:
            return interrupted

    app = grete.App("shop")
    results = app.topic("results", value=Format())

    @app.consumer("orders", publish=results)
    def take(order: Order) -> Stops:
        return Stops(order.id)

    with pytest.raises(KeyboardInterrupt):
        testing.consume(app, "orders", [Order(1)])
