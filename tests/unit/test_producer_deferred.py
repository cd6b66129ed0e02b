"""`produce` in a coroutine: it never waits for a new topic, and a task of the loop takes the record in its order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

import pytest

import grete
from grete.client import Producer
from tests.unit.fake_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"orders": 1, "many": 3}) as fake:
        yield fake


class LongestWait:
    """Measures the longest time, in seconds, in which the event loop ran nothing else."""

    seconds = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0.01)
        self._task.cancel()

    async def _tick(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            self.seconds, last = max(self.seconds, now - last), now


def test_a_topic_that_does_not_exist_stops_no_other_task(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    called: list[Any] = []

    async def main() -> float:
        async with Producer(broker.settings) as producer, LongestWait() as wait:
            deliveries = [producer.produce("missing", b"v", on_delivery=called.append) for _ in range(5)]
            assert not deliveries[0].done
            first: Any = deliveries[0]
            assert (first.topic, first.partition, first.outcome) == ("missing", None, None)
            for delivery in deliveries:
                with pytest.raises(grete.UnknownTopicError, match='there is no topic "missing"'):
                    await delivery
            assert {delivery.outcome for delivery in deliveries} == {"not_written"}
            assert called == deliveries
        return wait.seconds

    assert asyncio.run(main()) < 0.5  # a produce that waits takes a second (topic.metadata.propagation.max.ms)
    [*lines] = [record for record in caplog.records if "a record for missing was not taken" in record.getMessage()]
    assert len(lines) == 5


def test_without_a_broker_no_task_stops() -> None:
    async def main() -> float:
        settings = {"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 1500}
        async with Producer(settings) as producer, LongestWait() as wait:
            with pytest.raises(grete.GreteError):
                await producer.produce("orders", b"v")
        return wait.seconds

    assert asyncio.run(main()) < 0.5


def test_records_keep_their_order(broker: FakeBroker) -> None:
    async def main() -> list[int | None]:
        async with Producer(broker.settings) as producer:
            deliveries = [producer.produce("orders", b"%d" % number) for number in range(50)]
            sent = asyncio.create_task(producer.send("orders", b"50"))
            await asyncio.sleep(0)
            await deliveries[-1]
            deliveries += [producer.produce("orders", b"51"), await sent]
            return [(await one).offset for one in deliveries]

    offsets = asyncio.run(main())
    assert offsets == [*range(50), offsets[50], offsets[51]]
    assert set(offsets[50:]) == {50, 51}


def test_what_the_caller_changes_later_is_not_sent(broker: FakeBroker) -> None:
    async def main() -> None:
        async with Producer(broker.settings) as producer:
            value, headers = bytearray(b"first"), [("a", b"1")]
            delivery: Any = producer.produce("orders", value, headers=headers)
            value[:] = b"later"
            headers.clear()
            assert delivery._arguments[1:4] == (b"first", None, [("a", b"1")])
            await delivery

    asyncio.run(main())


@pytest.mark.parametrize("how", ["flush_async", "close_async"])
def test_flush_and_close_wait_for_records_whose_topic_is_new(broker: FakeBroker, how: str) -> None:
    async def main() -> None:
        producer = Producer(broker.settings)
        deliveries = [producer.produce("orders", b"v") for _ in range(3)]
        await getattr(producer, how)()
        assert [one.outcome for one in deliveries] == ["written"] * 3
        await producer.close_async()

    asyncio.run(main())


def test_another_thread_may_wait_and_the_loops_own_may_not(broker: FakeBroker) -> None:
    async def main() -> None:
        async with Producer(broker.settings) as producer:
            delivery = producer.produce("orders", b"v")
            with pytest.raises(grete.GreteError, match="await the delivery"):
                delivery.wait(5.0)
            settled = await asyncio.to_thread(delivery.wait, 5.0)
            assert (settled.outcome, delivery.outcome, delivery.offset, delivery.error) == (
                "written",
                "written",
                0,
                None,
            )

    asyncio.run(main())


def test_deferred_records_are_bounded(broker: FakeBroker) -> None:
    async def main() -> None:
        async with Producer({**broker.settings, "buffer.memory": 100_000, "batch.size": 1000}) as producer:
            for _ in range(10):
                producer.produce("missing", b"x" * 9_000)
            producer.produce("missing", b"x" * 9_000)
            with pytest.raises(grete.BufferFullError, match="await some deliveries"):
                producer.produce("missing", b"x" * 9_000)

    asyncio.run(main())


def test_a_thread_without_a_loop_waits(broker: FakeBroker) -> None:
    with Producer(broker.settings) as producer:
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(producer.produce("orders", b"v")))
        thread.start()
        thread.join(10.0)
        [delivery] = found
        assert type(delivery) is grete.client.Delivery
