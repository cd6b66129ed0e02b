"""Functions that name what they get and return what they write, with a real broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

import msgspec
import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, header, make, running, until_done
from tests.integration.producers import producer, values
from tests.kafka import KafkaCluster

pytestmark = pytest.mark.kafka


class Order(msgspec.Struct):
    id: int
    text: str = ""


class Invoice(msgspec.Struct):
    order: int
    text: str = ""


def prepare(kafka: KafkaCluster, topic: str, records: list[Order]) -> str:
    """A source with these records, and a target that takes no large ones."""
    kafka.create_topic(topic, partitions=1)
    kafka.create_topic(f"{topic}.dlq", partitions=1)
    kafka.create_topic(f"{topic}.out", partitions=1, config={"max.message.bytes": "1000"})
    encoded = [msgspec.json.encode(order) for order in records]
    with producer(kafka.bootstrap_servers) as source:
        source.produce_many(topic, encoded, keys=[b"%d" % order.id for order in records], partition=0).wait(30)
    return f"{topic}.out"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("concurrency", ["partition", "key"])
def test_a_result_that_no_broker_takes_is_a_dead_letter_of_its_record(
    kafka: KafkaCluster, topic: str, group: str, is_async: bool, concurrency: str
) -> None:
    target = prepare(kafka, topic, [Order(1), Order(2, "x" * 5000), Order(3)])
    app = make(kafka, group)
    orders, invoices = app.topic(topic, key=int, value=Order), app.topic(target, key=int, value=Invoice)
    settings = {"concurrency": concurrency, "retry": FAST, "dead_letter": f"{topic}.dlq", "publish": invoices}

    if is_async:

        @app.consumer(orders, **settings)  # type: ignore[arg-type]
        async def later(order: Order, key: grete.Key[int]) -> Invoice:
            assert key == order.id
            return Invoice(order.id, order.text)
    else:

        @app.consumer(orders, **settings)  # type: ignore[arg-type]
        def charge(order: Order, key: grete.Key[int]) -> Invoice:
            assert key == order.id
            return Invoice(order.id, order.text)

    with running(app):
        until_done(kafka, app, topic)
    (letter,) = dead_letters(kafka, f"{topic}.dlq")
    assert letter.key == b"2"
    assert header(letter, "grete.error.class").endswith("DeliveryError")
    written = {value for value in values(kafka, target) if value is not None}
    assert {msgspec.json.decode(value)["order"] for value in written} == {1, 3}


def test_providers_of_the_process_live_as_long_as_handlers_run(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = prepare(kafka, topic, [Order(number) for number in range(20)])
    app = make(kafka, group)
    log: list[str] = []
    loops: set[asyncio.AbstractEventLoop] = set()

    def settings(app: grete.App) -> Iterator[str]:
        log.append("open settings")
        yield app.name
        log.append("close settings")

    async def pool(name: Annotated[str, grete.Depends(settings, scope="process")]) -> AsyncIterator[str]:
        loops.add(asyncio.get_running_loop())
        log.append("open pool")
        yield f"pool of {name}"
        await asyncio.sleep(0)
        loops.add(asyncio.get_running_loop())
        log.append("close pool")

    @app.consumer(topic, publish=target, concurrency="key")
    async def charge(order: Order, pool: Annotated[str, grete.Depends(pool, scope="process")]) -> Invoice:
        loops.add(asyncio.get_running_loop())
        return Invoice(order.id, pool)

    with running(app):
        until_done(kafka, app, topic)
        assert log == ["open settings", "open pool"]
    assert log == ["open settings", "open pool", "close pool", "close settings"]
    assert len(loops) == 1
    assert len(values(kafka, target)) == 20


def test_the_producer_of_the_app_works_from_threads_and_coroutines(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = prepare(kafka, topic, [])
    app = make(kafka, group)
    orders = app.topic(topic, key=str, value=Order)

    @app.consumer(orders, publish=app.topic(target, value=Invoice))
    def charge(order: Order) -> Invoice:
        return Invoice(order.id)

    def produce() -> None:
        app.producer.produce_sync(orders, Order(1), key="thread")

    async def send() -> None:
        await asyncio.gather(*(app.producer.send(orders, Order(number), key="loop") for number in (2, 3)))

    with running(app):
        thread = threading.Thread(target=produce)
        thread.start()
        thread.join(60)
        asyncio.run(send())
        app.producer.produce_many(orders, [Order(4), Order(5)], keys=["many", None]).wait(30)
        until_done(kafka, app, topic)
    found = [msgspec.json.decode(value)["order"] for value in values(kafka, target) if value is not None]
    assert sorted(found) == [1, 2, 3, 4, 5]
    with pytest.raises(grete.GreteError, match="does not run"):
        app.producer.produce(orders, Order(6))
