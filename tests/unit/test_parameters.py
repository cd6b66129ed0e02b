"""Handlers get what they name."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import msgspec
import pytest

import grete
import grete.client
from grete import testing


class Order(msgspec.Struct):
    id: int


class Pool:
    pass


def get_pool() -> Pool:
    return Pool()


async def get_async_pool() -> Pool:
    return Pool()


def run_one(handler: Callable[..., object], *records: Any, **settings: Any) -> testing.Run:
    run = testing.consume(handler, "orders", records or [Order(1)], retry=grete.Retry(1), **settings)
    run.raise_first()
    return run


def test_everything_about_a_record() -> None:
    seen: list[object] = []

    def take(
        order: Order,
        key: grete.Key[str],
        message: grete.Message,
        *,
        headers: grete.Headers,
        offset: grete.Offset,
        attempt: grete.Attempt,
    ) -> None:
        seen.append((order, key, message.offset, headers, offset, attempt))

    run_one(take, testing.Record(Order(1), "a", {"h": b"1"}), testing.Record(Order(2), "b"), offset=7)
    assert seen == [(Order(1), "a", 7, (("h", b"1"),), 7, 1), (Order(2), "b", 8, (), 8, 1)]


def test_async_handlers_get_the_same() -> None:
    seen: list[object] = []

    async def take(order: Order, key: grete.Key[int], offset: grete.Offset) -> None:
        await asyncio.sleep(0)
        seen.append((order, key, offset))

    run = asyncio.run(testing.consume_async(take, "orders", [Order(1)], key="5"))
    run.raise_first()
    assert seen == [(Order(1), 5, 0)]


def test_a_batch_of_payloads() -> None:
    seen: list[object] = []

    def take(orders: grete.Batch[Order], messages: grete.Messages, attempt: grete.Attempt) -> None:
        seen.append((orders, len(messages), attempt))

    run_one(take, Order(1), Order(2))
    assert seen == [([Order(1), Order(2)], 2, 1)]


def test_a_batch_alone_and_async() -> None:
    seen: list[object] = []

    async def take(orders: grete.Batch[Order]) -> None:
        seen.append(orders)

    run_one(take, Order(1), Order(2))
    assert seen == [[Order(1), Order(2)]]


def test_one_record_of_a_batch_that_does_not_decode_is_the_one_that_fails() -> None:
    def take(orders: grete.Batch[Order]) -> None:
        """Nothing."""

    run = testing.consume(take, "orders", [Order(1), b"?", Order(3)], retry=grete.Retry(2), dead_letter="dlq")
    assert (run.marked, [letter.offset for letter in run.dead]) == ([0, 2], [1])


def test_a_message_with_the_type_of_its_payload() -> None:
    seen: list[object] = []

    def take(message: grete.Message[Order]) -> None:
        seen.append(message.payload)

    run_one(take)
    assert seen == [Order(1)]


@pytest.mark.parametrize("missing", [True, False])
def test_a_record_without_a_key(missing: bool) -> None:
    seen: list[object] = []

    def strict(order: Order, key: grete.Key[str]) -> None:
        """Nothing."""

    def lenient(order: Order, key: grete.Key[str | None]) -> None:
        seen.append(key)

    if missing:
        with pytest.raises(grete.DecodeError, match=r"offset 0 has no key, .*take grete\.Key\[str \| None\]"):
            run_one(strict)
    else:
        run_one(lenient)
        assert seen == [None]


def test_a_key_that_does_not_decode_is_a_failure_of_its_record() -> None:
    def take(order: Order, key: grete.Key[int]) -> None:
        """Nothing."""

    records = [testing.Record(Order(1), "1"), testing.Record(Order(2), "x"), testing.Record(Order(3), "3")]
    run = testing.consume(take, "orders", records, retry=grete.Retry(1), dead_letter="dlq")
    assert (run.marked, run.dead[0].offset, run.dead[0].error) == ([0, 2], 1, "DecodeError")


def test_the_attempt_is_that_of_the_record() -> None:
    seen: list[tuple[int, int]] = []

    def take(message: grete.Message, attempt: grete.Attempt) -> None:
        seen.append((message.offset, attempt))
        if message.offset == 1 and attempt < 3:
            raise ValueError

    testing.consume(take, "orders", [b"0", b"1", b"2"])
    assert seen == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)]


def test_a_producer_holds_back_the_offsets() -> None:
    def take(order: Order, producer: grete.Producer) -> None:
        producer.produce("out", b"%d" % order.id)

    run = testing.consume(
        take, "orders", [Order(1), Order(2)], retry=grete.Retry(1), dead_letter="dlq", fail_delivery={"out": 1}
    )
    assert (run.marked, run.dead[0].offset, run.dead[0].error) == ([1], 0, "DeliveryError")
    assert set(run.produced["out"].values()) == {b"2"}


def test_context_and_app() -> None:
    app = grete.App("shop")
    seen: list[object] = []

    @app.consumer("orders")
    def take(message: grete.Message, context: grete.Context, same: grete.App) -> None:
        seen.append((context.topic, context.partition, context.attempt, context.leaving, context.app is app is same))

    testing.consume(app, "orders", [b"1"], partition=3).raise_first()
    assert seen == [("orders", 3, 1, False, True)]


def test_parameters_with_defaults_are_left_alone() -> None:
    seen: list[object] = []

    def take(order: Order, limit: int = 3, *, more: "Unknown" = 4) -> None:  # type: ignore[name-defined]  # noqa: F821
        seen.append((order, limit, more))

    run_one(take)
    assert seen == [(Order(1), 3, 4)]


# Providers


def test_a_provider_is_called_for_each_record_once() -> None:
    made: list[Pool] = []

    def get() -> Pool:
        made.append(Pool())
        return made[-1]

    def name_of(pool: Annotated[Pool, grete.Depends(get)], message: grete.Message) -> str:
        assert pool is made[-1]
        return f"{len(made)}/{message.offset}"

    seen: list[object] = []

    def take(
        order: Order,
        pool: Annotated[Pool, grete.Depends(get)],
        name: Annotated[str, grete.Depends(name_of)],
    ) -> None:
        assert pool is made[-1]
        seen.append(name)

    run_one(take, Order(1), Order(2))
    assert seen == ["1/0", "2/1"]


def test_a_provider_cleans_up_before_the_record_is_marked() -> None:
    log: list[object] = []

    def session() -> Iterator[str]:
        log.append("open")
        try:
            yield "session"
        except ValueError:
            log.append("rollback")  # and no raise: the record has failed all the same
        else:
            log.append("commit")
            if log.count("commit") == 2:
                raise OSError("the commit failed")

    def take(order: Order, session: Annotated[str, grete.Depends(session)]) -> None:
        log.append(order.id)
        if order.id == 2:
            raise ValueError

    run = testing.consume(take, "orders", [Order(1), Order(2), Order(3)], retry=grete.Retry(1), dead_letter="dlq")
    assert log == ["open", 1, "commit", "open", 2, "rollback", "open", 3, "commit"]
    assert run.marked == [0]
    assert [(letter.offset, letter.error) for letter in run.dead] == [(1, "ValueError"), (2, "OSError")]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_provider_of_the_process_is_made_once_and_ends_with_the_run(is_async: bool) -> None:
    log: list[str] = []

    def settings(app: grete.App) -> str:
        return app.name

    def pool(name: Annotated[str, grete.Depends(settings, scope="process")]) -> Iterator[Pool]:
        log.append(f"open {name}")
        yield Pool()
        log.append("close")

    async def async_pool(name: Annotated[str, grete.Depends(settings, scope="process")]) -> AsyncIterator[Pool]:
        log.append(f"open {name}")
        yield Pool()
        await asyncio.sleep(0)
        log.append("close")

    app = grete.App("shop")
    seen: list[Pool] = []

    if is_async:

        @app.consumer("orders", concurrency="key")
        async def later(
            message: grete.Message, pool: Annotated[Pool, grete.Depends(async_pool, scope="process")]
        ) -> None:
            seen.append(pool)
    else:

        @app.consumer("orders", concurrency="key")
        def take(message: grete.Message, pool: Annotated[Pool, grete.Depends(pool, scope="process")]) -> None:
            seen.append(pool)

    testing.consume(app, "orders", [testing.Record(b"1", str(key)) for key in range(20)]).raise_first()
    assert len(seen) == 20
    assert len(set(map(id, seen))) == 1
    assert log == ["open shop", "close"]


def test_a_provider_of_the_process_that_fails_costs_no_attempt() -> None:
    tries: list[int] = []

    def pool() -> Pool:
        tries.append(1)
        if len(tries) < 5:
            raise ConnectionError("the database is down")
        return Pool()

    def take(order: Order, pool: Annotated[Pool, grete.Depends(pool, scope="process")]) -> None:
        """Nothing."""

    run = testing.consume(take, "orders", [Order(1)], retry=grete.Retry(2), dead_letter="dlq")
    assert (run.marked, len(tries), run.attempts) == ([0], 5, {0: 1})
    assert {failure.hook for failure in run.failures} == {"initialize"}


@pytest.mark.parametrize("kind", ["none", "two"])
def test_a_provider_yields_once(kind: str) -> None:
    def none() -> Iterator[int]:
        if kind != "none":
            yield 1
            yield 2

    def take(order: Order, number: Annotated[int, grete.Depends(none)]) -> None:
        """Nothing."""

    with pytest.raises(grete.GreteError, match=f"{'ended without a' if kind == 'none' else 'yields a second'}"):
        run_one(take)


def two_payloads(order: Order, other: int) -> None: ...
def unannotated(order: Order, other) -> None: ...  # type: ignore[no-untyped-def]
def record_of_batch(orders: grete.Batch[Order], key: grete.Key[str]) -> None: ...
def batch_of_record(message: grete.Message, orders: grete.Batch[Order]) -> None: ...
def listed(orders: list[Order]) -> None: ...
def low_level(order: Order, producer: grete.client.Producer) -> None: ...
def sync_with_async(order: Order, pool: Annotated[Pool, grete.Depends(get_async_pool)]) -> None: ...
def wrong_type(order: Order, pool: Annotated[str, grete.Depends(get_pool)]) -> None: ...
def no_function(order: Order, pool: Annotated[Pool, grete.Depends]) -> None: ...


class FastApiDepends:
    """FastAPI's `Depends`, as far as it is known by its module and attributes."""

    def __init__(self, dependency: Callable[..., object]) -> None:
        self.dependency = dependency


FastApiDepends.__name__, FastApiDepends.__module__ = "Depends", "fastapi.params"


BY_DEFAULT: Any = grete.Depends(get_pool)
FASTAPI_BY_DEFAULT: Any = FastApiDepends(get_pool)


def by_default(order: Order, pool: Pool = BY_DEFAULT) -> None: ...
def by_default_alone(order: Order, pool=BY_DEFAULT) -> None: ...  # type: ignore[no-untyped-def]
def of_fastapi(order: Order, pool: Annotated[Pool, FastApiDepends(get_pool)]) -> None: ...
def of_fastapi_default(order: Order, pool: Pool = FASTAPI_BY_DEFAULT) -> None: ...
def needs_default(pool: Pool = BY_DEFAULT) -> Pool: ...  # type: ignore[empty-body]
def of_default(order: Order, pool: Annotated[Pool, grete.Depends(needs_default)]) -> None: ...
def plain_key(order: Order, key: str) -> None: ...
def plain_headers(headers: dict[str, bytes], order: Order) -> None: ...
def needs_more(count: int) -> Pool: ...  # type: ignore[empty-body]
def of_payload(order: Order, pool: Annotated[Pool, grete.Depends(needs_more)]) -> None: ...
def needs_record(message: grete.Message) -> Pool: ...  # type: ignore[empty-body]
def of_process(order: Order, pool: Annotated[Pool, grete.Depends(needs_record, scope="process")]) -> None: ...
def record_provider(orders: grete.Batch[Order], pool: Annotated[Pool, grete.Depends(needs_record)]) -> None: ...
def itself(pool: "Annotated[Pool, grete.Depends(itself)]") -> Pool: ...  # type: ignore[empty-body]
def in_a_ring(order: Order, pool: Annotated[Pool, grete.Depends(itself)]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (
            two_payloads,
            r"order: Order and other: int would both be the payload, .*annotate the other one with grete\.Key",
        ),
        (unannotated, "other has no annotation, which says what it gets: annotate it"),
        (record_of_batch, r"orders is a batch of records, and key is the key of one: take messages: grete\.Messages"),
        (batch_of_record, "orders is a batch of records, and message is the message of one"),
        (
            listed,
            r"list\[.*Order\] would mean that each value is a JSON list: for a batch .* take grete\.Batch\[.*Order\]",
        ),
        (low_level, r"producer is Producer: take grete\.Producer, whose records belong to the job"),
        (sync_with_async, "pool comes from get_async_pool, which is async, but the handler is a plain def"),
        (wrong_type, "pool is str, and get_pool makes Pool: annotate the parameter with Pool"),
        (no_function, r"Depends needs a function: Annotated\[\.\.\., grete\.Depends\(get_it\)\]"),
        (
            by_default,
            r"has grete\.Depends as its default value: write pool: Annotated\[.*Pool, grete\.Depends\(get_pool\)",
        ),
        (by_default_alone, r"write pool: Annotated\[TYPE, grete\.Depends\(get_pool\)\]"),
        (
            of_fastapi,
            r"this is FastAPI's Depends; use grete\.Depends: pool: Annotated\[.*Pool, grete\.Depends\(get_pool",
        ),
        (of_fastapi_default, r"pool: this is FastAPI's Depends; use grete\.Depends: pool: Annotated\[.*Pool, grete"),
        (of_default, r"provider needs_default: pool has grete\.Depends as its default value"),
        (plain_key, r"would both be the payload, and a record has one: write key: grete\.Key\[str\]$"),
        (plain_headers, r"a record has one: write headers: grete\.Headers$"),
        (of_payload, "provider needs_more: count would be the payload, which only the handler gets"),
        (of_process, 'needs_record has the scope "process", and its parameter message .* changes with each call'),
        (record_provider, "message is the message of one"),
        (in_a_ring, "itself depends on itself: itself -> itself"),
    ],
)
def test_a_wrong_annotation_is_refused_with_its_place(handler: Callable[..., object], says: str) -> None:
    app = grete.App("shop")
    with pytest.raises(grete.ConfigError, match=says) as caught:
        app.consumer("orders")(handler)
    assert str(caught.value).startswith(f"{caught.value.location}: consumer {handler.__name__}")
    assert not app.routes


def test_a_type_that_contradicts_the_topic_names_the_topic() -> None:
    app = grete.App("shop")
    orders = app.topic("orders", key=int, value=Order)

    def other_value(order: dict[str, int]) -> None: ...
    def other_key(order: Order, key: grete.Key[str]) -> None: ...

    with pytest.raises(
        grete.ConfigError, match=r'topic "orders": value=.*Order gives .*Order, and the function takes di'
    ):
        app.consumer(orders)(other_value)
    with pytest.raises(grete.ConfigError, match='topic "orders": key=int gives int, and the function takes str'):
        app.consumer(orders)(other_key)
    loose = app.topic("loose", value="json")
    with pytest.raises(grete.ConfigError, match=r'topic "loose": value="json" gives .*: leave value out'):
        app.consumer(loose)(of_order)


def of_order(order: Order) -> None: ...


def test_a_list_that_is_the_payload_says_so() -> None:
    seen: list[object] = []

    def take(orders: list[Order]) -> None:
        seen.append(orders)

    run_one(take, b'[{"id":1}]', payload=list[Order])
    assert seen == [[Order(1)]]


def test_wrong_depends() -> None:
    with pytest.raises(grete.ConfigError, match=r"test_parameters\.py:\d+: Depends\(Pool\): it takes a function"):
        grete.Depends(Pool())  # type: ignore[arg-type]
    with pytest.raises(grete.ConfigError, match='scope is "call" or "process", not \'job\''):
        grete.Depends(get_pool, scope="job")  # type: ignore[arg-type]
