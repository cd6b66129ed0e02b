"""grete.testing: asynchronous handlers."""

import asyncio

import pytest

import grete
from grete import testing


async def charge(message: grete.Message) -> None:
    await asyncio.sleep(0)
    if message.value == b"bad":
        raise ValueError("bad")


def test_a_coroutine_function() -> None:
    run = testing.consume(charge, "orders", [b"1", b"bad", b"3"], dead_letter="dlq", retry=grete.Retry(attempts=3))
    assert (run.marked, [dead.offset for dead in run.dead]) == ([0, 2], [1])
    assert run.attempts == {0: 1, 1: 3, 2: 1}
    assert run.waited == pytest.approx(0.6)
    with pytest.raises(ValueError, match="bad"):
        run.raise_first()


def test_a_class_with_coroutines() -> None:
    class Orders(grete.Consumer):
        async def initialize(self) -> None:
            self.calls = ["initialize"]
            await asyncio.sleep(0)

        async def consume(self) -> None:
            for message in self.messages:
                delivery = await self.producer.send("out", message.value)
                self.calls.append(f"wrote {delivery.offset}")

        async def shutdown(self) -> None:
            self.calls.append("shutdown")

    run = testing.consume(Orders, "orders", [b"1", b"2"])
    run.raise_first()
    assert run.consumer.calls == ["initialize", "wrote 0", "wrote 1", "shutdown"]
    assert (run.marked, run.produced["out"].values()) == ([0, 1], [b"1", b"2"])


def test_a_failed_delivery_of_a_coroutine() -> None:
    class Orders(grete.Consumer):
        async def consume(self) -> None:
            self.producer.produce("out", b"1")

    run = testing.consume(Orders, "orders", [b"1"], fail_delivery={"out": 1})
    assert (run.marked, run.attempts) == ([0], {0: 2})
    assert isinstance(run.errors[0], grete.DeliveryError)


def test_keys_run_side_by_side() -> None:
    met: list[bytes | None] = []
    arrived: list[asyncio.Event] = []

    async def meet(message: grete.Message) -> None:
        if not arrived:
            arrived.append(asyncio.Event())
            await asyncio.wait_for(arrived[0].wait(), 10.0)
        else:
            arrived[0].set()
        met.append(message.key)

    records = [testing.Record(b"", key=key) for key in ("a", "b")]
    assert testing.consume(meet, "orders", records, concurrency="key").marked == [0, 1]
    assert sorted(met, key=str) == [b"a", b"b"]


def test_on_a_running_loop() -> None:
    async def main() -> testing.Run:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def handle(message: grete.Message) -> None:
            await queue.put(message.value)

        with pytest.raises(grete.GreteError, match="consume_async"):
            testing.consume(handle, "orders", [b"1"])
        run = await testing.consume_async(handle, "orders", [b"1"])
        assert queue.get_nowait() == b"1"
        assert (await testing.consume_async(lambda messages: None, "orders", [b"1"])).marked == [0]
        return run

    assert asyncio.run(main()).marked == [0]


def test_a_cancelled_run_leaves_no_task() -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def handle(message: grete.Message) -> None:
            started.set()
            await asyncio.Event().wait()

        run = asyncio.create_task(testing.consume_async(handle, "orders", [b"1"]))
        await asyncio.wait_for(started.wait(), 10.0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_background_tasks_end_with_the_run() -> None:
    class Works(grete.Consumer):
        cancelled = False

        async def initialize(self) -> None:
            self.background(self.work)

        async def work(self) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise

        async def consume(self) -> None:
            await asyncio.sleep(0)

    assert testing.consume(Works, "orders", [b"1"]).consumer.cancelled
