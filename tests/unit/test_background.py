"""What consumers run beside their hooks."""

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

import grete
from grete._processing.instances import teardown as departures
from tests.kafka import eventually
from tests.unit.fake_jobs import FakeJob, some
from tests.unit.test_hook_runner import Rig


class Beside(grete.Consumer):
    """Runs `work` beside its hooks, and notes in which order things happen."""

    def initialize(self) -> None:
        self.order: list[str] = []
        self.thread = self.background(self.run, name="beside")
        assert isinstance(self.thread, threading.Thread)
        assert self.thread.name == "grete-background-beside"
        assert self.thread.daemon

    def run(self) -> None:
        self.work()

    def work(self) -> None:
        """To be overridden."""

    def consume(self) -> None:
        """Nothing."""

    def revoked(self) -> None:
        self.order.append("revoked")


def consumer_of(rig: Rig) -> Any:
    (consumer,) = (instance.consumer for instance in rig.instances.all())
    return consumer


def test_it_has_ended_before_the_last_hook_runs() -> None:
    class Waits(Beside):
        def work(self) -> None:
            assert self.stopping.wait(30)
            self.order.append("ended")

    rig = Rig(Waits)
    rig.run(FakeJob(messages=some()))
    consumer = consumer_of(rig)
    assert consumer.thread.is_alive()
    rig.run(FakeJob("revoked"))
    assert consumer.order == ["ended", "revoked"]
    assert not consumer.thread.is_alive()
    with pytest.raises(grete.GreteError, match="is being closed"):
        consumer.background(print)


def test_what_it_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Beside):
        def work(self) -> None:
            raise ValueError("no")

    rig = Rig(Fails)
    rig.run(FakeJob(messages=some()))
    eventually(lambda: caplog.records, 30.0, "the log line")
    (record,) = caplog.records
    assert record.__dict__["event"] == "background.failed"
    assert "grete-background-beside of " in record.getMessage()
    assert "on orders[3] has failed and ended: ValueError: no" in record.getMessage()
    rig.run(FakeJob("revoked"))
    assert len(caplog.records) == 1


def test_one_that_does_not_end_is_left_behind_by_name(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()

    class Deaf(Beside):
        def work(self) -> None:
            over.wait(30)

    rig = Rig(Deaf)
    rig.run(FakeJob(messages=some()))
    consumer = consumer_of(rig)
    rig.departure.begin_shutdown(time.monotonic() + 0.05)
    try:
        rig.run(FakeJob("revoked"))
        assert consumer.order == ["revoked"]
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert record.__dict__["event"] == "thread.leaked"
        assert "grete-background-beside of " in record.getMessage()
        assert "over.wait(30)" in record.getMessage(), "its stack"
    finally:
        over.set()
        consumer.thread.join(30)


def test_a_failed_initialize_ends_what_it_has_started() -> None:
    ended = threading.Event()

    class Half(grete.Consumer):
        def initialize(self) -> None:
            self.background(self.wait)
            raise OSError("no database")

        def wait(self) -> None:
            self.stopping.wait(30)
            ended.set()

        def consume(self) -> None:
            """Never."""

    with pytest.raises(Exception):  # noqa: B017, PT011
        Rig(Half).run(FakeJob(messages=some()))
    assert ended.is_set()


def test_many_instances_are_waited_for_at_once() -> None:
    gate = threading.Barrier(3)

    class Waits(Beside):
        def work(self) -> None:
            self.stopping.wait(30)
            gate.wait(30)  # none of them comes through alone

    rig = Rig(Waits, concurrency="key")
    rig.run(*(FakeJob(slot=slot, messages=some()) for slot in range(3)))
    rig.run(FakeJob("revoked"))
    assert len(rig.instances) == 0


def test_a_coroutine_function_needs_a_loop() -> None:
    class Wrong(grete.Consumer):
        def consume(self) -> None:
            self.background(self.wait)

        async def wait(self) -> None:
            """Never."""

    with pytest.raises(grete.GreteError, match="coroutine function wait"):
        Rig(Wrong).run(FakeJob(messages=some()))


def test_only_functions_run_in_the_background() -> None:
    class Wrong(grete.Consumer):
        def consume(self) -> None:
            self.background(print("now"))  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="pass the function itself"):
        Rig(Wrong).run(FakeJob(messages=some()))


class AsyncBeside(grete.Consumer):
    """Runs a task and a thread beside its hooks."""

    async def initialize(self) -> None:
        self.order: list[str] = []
        self.task = self.background(self.wait, "task")
        self.thread = self.background(self.block)

    async def wait(self, name: str) -> None:
        try:
            await asyncio.Future()
        finally:
            self.order.append(name)

    def block(self) -> None:
        self.stopping.wait(30)
        self.order.append("thread")

    async def consume(self) -> None:
        await asyncio.sleep(0)

    async def shutdown(self) -> None:
        self.order.append("shutdown")


def test_tasks_are_cancelled_and_threads_joined_without_blocking_the_loop() -> None:
    async def main() -> None:
        rig = Rig(AsyncBeside, asynchronous=True)
        await rig.run_async(FakeJob(messages=some()))
        consumer = consumer_of(rig)
        assert isinstance(consumer.task, asyncio.Task)
        assert consumer.task.get_name() == "grete-background-wait"
        await rig.run_async(FakeJob("shutdown"))
        assert sorted(consumer.order[:2]) == ["task", "thread"]
        assert consumer.order[2:] == ["shutdown"]

    asyncio.run(main())


def test_a_task_that_will_not_end_is_left_behind_by_name(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departures, "GRACE", 0.05)

    class Deaf(AsyncBeside):
        async def wait(self, name: str) -> None:
            while "shutdown" not in self.order:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue

    async def main() -> None:
        rig = Rig(Deaf, asynchronous=True)
        await rig.run_async(FakeJob(messages=some()))
        consumer = consumer_of(rig)
        await rig.run_async(FakeJob("shutdown"))
        consumer.task.cancel()
        await consumer.task

    asyncio.run(main())
    (record,) = caplog.records
    assert record.__dict__["event"] == "thread.leaked"
    assert "task grete-background-wait was cancelled" in record.getMessage()


def test_what_a_task_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(AsyncBeside):
        async def wait(self, name: str) -> None:
            raise ValueError("no")

    async def main() -> None:
        rig = Rig(Fails, asynchronous=True)
        await rig.run_async(FakeJob(messages=some()))
        await asyncio.wait([consumer_of(rig).task])
        await rig.run_async(FakeJob("shutdown"))

    asyncio.run(main())
    assert [record.__dict__["event"] for record in caplog.records] == ["background.failed"]
