"""`send`: producing in event loops."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

import grete
from grete.client import Producer
from tests.kafka import eventually
from tests.unit.fake_broker import FakeBroker
from tests.unit.inherited_state import descriptors


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"orders": 1, "many": 3}) as fake:
        yield fake


def test_many_tasks_share_batches(broker: FakeBroker) -> None:
    async def main() -> None:
        deliveries = await asyncio.gather(*(producer.send("many", b"v", key=b"%d" % n) for n in range(1000)))
        assert all(one.outcome == "written" for one in deliveries)

    with Producer(broker.settings) as producer:
        asyncio.run(main())
        assert len(broker.produced) < 500


def test_each_loop_waits_for_itself(broker: FakeBroker) -> None:
    failures: list[BaseException] = []

    async def main() -> None:
        for _ in range(30):
            await asyncio.gather(*(producer.send("many", b"v") for _ in range(10)))

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)

    with Producer({**broker.settings, "linger.ms": 0}) as producer:
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
        assert failures == []
        assert producer.statistics()["written"] == 4 * 300


def test_what_fails_is_raised_where_it_is_awaited(broker: FakeBroker) -> None:
    broker.answer = lambda _topic, partition: 87 if partition == 1 else 0

    async def main() -> list[object]:
        sends = (producer.send("many", b"v", partition=partition) for partition in range(3))
        return await asyncio.gather(*sends, return_exceptions=True)

    with Producer(broker.settings) as producer:
        good, bad, fine = asyncio.run(main())
    assert isinstance(bad, grete.DeliveryError)
    assert not isinstance(good, BaseException)
    assert not isinstance(fine, BaseException)


def test_a_cancelled_task_harms_no_other(broker: FakeBroker) -> None:
    broker.answer = lambda _topic, _partition: None

    async def main() -> None:
        tasks = [asyncio.create_task(producer.send("orders", b"v")) for _ in range(10)]
        await asyncio.to_thread(broker.wait_for_batches, 1)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*tasks, return_exceptions=True)
        )
        broker.answer = lambda _topic, _partition: 0
        assert (await producer.send("many", b"v")).outcome == "written"

    with Producer({**broker.settings, "max.in.flight": 1, "request.timeout.ms": 500}) as producer:
        asyncio.run(main())


def test_the_loop_runs_on_while_there_is_no_room(broker: FakeBroker) -> None:
    broker.answer = lambda _topic, _partition: None
    small = {"buffer.memory": 65536, "batch.size": 16384, "linger.ms": 0}

    async def main() -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        turning = asyncio.create_task(turn())
        sends = [asyncio.create_task(producer.send("orders", bytes(4000))) for _ in range(40)]
        done, _ = await asyncio.wait(sends, timeout=30.0, return_when=asyncio.FIRST_COMPLETED)
        assert done
        for send in done:
            with pytest.raises(grete.BufferFullError):
                send.result()
        assert turns > 3
        turning.cancel()
        for send in sends:
            send.cancel()
        await asyncio.gather(*sends, turning, return_exceptions=True)

    producer = Producer({**broker.settings, **small}, max_block=0.3)
    producer.partitions("orders", 30.0)
    asyncio.run(main())
    producer.close(0)


def test_room_that_comes_back_is_used(broker: FakeBroker) -> None:
    small = {"buffer.memory": 65536, "batch.size": 16384, "linger.ms": 0}

    async def main() -> None:
        deliveries = await asyncio.gather(*(producer.send("orders", bytes(4000)) for _ in range(300)))
        assert sorted(one.offset or 0 for one in deliveries) == list(range(300))

    with Producer({**broker.settings, **small}, max_block=60.0) as producer:
        asyncio.run(main())


def test_an_unknown_topic_does_not_hold_up_the_loop(broker: FakeBroker) -> None:
    async def main() -> None:
        unknown = asyncio.create_task(producer.send("odrers", b"v"))
        assert (await producer.send("orders", b"v")).outcome == "written"
        assert not unknown.done()
        with pytest.raises(grete.UnknownTopicError):
            await unknown

    with Producer(broker.settings, max_block=1.0) as producer:
        asyncio.run(main())


def test_closing_from_another_thread_ends_the_waiting(broker: FakeBroker) -> None:
    broker.answer = lambda _topic, _partition: None

    async def main() -> None:
        send = asyncio.create_task(producer.send("orders", b"v"))
        await asyncio.to_thread(broker.wait_for_batches, 1)
        await asyncio.to_thread(producer.close, 0)
        with pytest.raises(grete.DeliveryError, match="closed"):
            await send

    producer = Producer(broker.settings)
    asyncio.run(main())


@pytest.mark.own_process
def test_an_idle_producer_leaves_nothing_in_the_loop(broker: FakeBroker) -> None:
    async def main() -> int:
        await producer.send("orders", b"v")
        loop = asyncio.get_running_loop()
        return len(loop._selector.get_map())  # type: ignore[attr-defined]

    async def nothing() -> int:
        return len(asyncio.get_running_loop()._selector.get_map())  # type: ignore[attr-defined]

    with Producer(broker.settings) as producer:
        assert asyncio.run(main()) == asyncio.run(nothing())
    gc.collect()
    before = descriptors()
    with Producer(broker.settings) as producer:
        for _ in range(20):
            asyncio.run(main())
    gc.collect()  # a loop and what wakes it refer to each other
    eventually(lambda: len(descriptors()) <= len(before), 30.0, lambda: f"{before}, not {descriptors()}")
