"""Async handlers on the event loop of the process that the App is a guest of."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from starlette.applications import Starlette

import grete
from tests.integration.app_in_process import make, until_done
from tests.integration.test_blocked_loop import logged
from tests.kafka import KafkaCluster, eventually, fill
from tests.unit.test_asgi import serve

pytestmark = pytest.mark.kafka

Run = Callable[[Any], Any]


async def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """As `eventually`, while the loop turns."""
    await asyncio.to_thread(eventually, condition, seconds, what)


async def others_end() -> None:
    """Return when no other task of the running loop is left; raises TimeoutError after 30 s."""
    async with asyncio.timeout(30.0):
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)


@pytest.fixture
def records(kafka: KafkaCluster, topic: str) -> str:
    """A topic with ten records in each of two partitions."""
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 20, partitions=2)
    return topic


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_handlers_use_what_around_has_opened(kafka: KafkaCluster, records: str, run: Run) -> None:
    app = make(kafka, records)
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
    lock = asyncio.Lock()
    loops: set[object] = set()
    seen: list[int] = []

    @app.consumer(records)
    async def handler(message: grete.Message) -> None:
        loops.add(asyncio.get_running_loop())
        async with lock:  # bound to the loop on which it was waited for first
            await queue.put(message.offset)

    @asynccontextmanager
    async def around(_web: Any) -> AsyncIterator[None]:
        async def drain() -> None:
            while True:
                seen.append(await queue.get())

        await lock.acquire()
        waiting = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0)
        lock.release()
        await waiting
        lock.release()
        task = asyncio.create_task(drain())
        yield
        task.cancel()

    web = Starlette(lifespan=grete.asgi.lifespan(app, around=around))

    async def all_seen(_state: Any) -> None:
        loops.add(asyncio.get_running_loop())
        await until(lambda: len(seen) == 20, "all records", 20.0)

    said = run(serve(web, all_seen))
    assert [message["type"] for message in said] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert len(loops) == 1, "the handlers' loop is the server's"
    assert sum(kafka.admin.committed(records).values()) == 20
    assert kafka.admin.members(records) == {}


@pytest.mark.parametrize("kind", ["own", "asyncio", "uvloop"])
def test_a_loop_of_its_own_is_the_settings_to_choose(kafka: KafkaCluster, records: str, kind: Any) -> None:
    app = make(kafka, records, loop=kind)
    threads: set[str] = set()

    @app.consumer(records)
    async def handler(messages: grete.Messages) -> None:
        threads.add(threading.current_thread().name)

    async def main() -> None:
        async with app.running():
            await until(lambda: app.statistics()["counts"]["records"] == 20, "all records")

    asyncio.run(main())
    assert threads == {"grete-loop"}


def stuck(app: grete.App, topic: str, hang: Callable[[], Awaitable[object]]) -> threading.Event:
    """A handler that does not return for partition 0, and does for partition 1. Set once it hangs."""
    inside = threading.Event()

    @app.consumer(topic)
    async def handler(messages: grete.Messages) -> None:
        if messages.partition == 0:
            inside.set()
            await hang()

    return inside


async def started(app: grete.App, inside: threading.Event) -> None:
    """On this loop, until the one hangs and the other is done."""
    app.start()
    assert await asyncio.to_thread(inside.wait, 60.0)
    await until(lambda: app.statistics()["counts"]["records"] == 10, "the other partition")


def test_a_handler_that_does_not_return_is_named_cancelled_and_comes_again(
    kafka: KafkaCluster, records: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make(kafka, records, loop="host")
    inside = stuck(app, records, lambda: asyncio.Event().wait())

    async def main() -> None:
        await started(app, inside)
        before = time.monotonic()
        with pytest.raises(grete.TimeoutError, match=rf"handler on {records}\[0\] .* in the host's event loop"):
            await asyncio.to_thread(app.stop, 2.0)
        assert time.monotonic() - before < 10.0
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing of the App is left on the loop"

    asyncio.run(main())
    assert "await hang()" in caplog.text, "its stack"
    assert kafka.admin.committed(records).get((records, 1)) == 10
    assert kafka.admin.committed(records).get((records, 0), 0) == 0
    assert kafka.admin.members(records) == {}


def test_a_handler_that_will_not_be_cancelled_is_left_behind(
    kafka: KafkaCluster, records: str, caplog: pytest.LogCaptureFixture
) -> None:
    over = threading.Event()

    async def hang() -> None:
        while not over.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    app = make(kafka, records, loop="host")
    inside = stuck(app, records, hang)

    async def main() -> None:
        await started(app, inside)
        before = time.monotonic()
        with pytest.raises(grete.TimeoutError):
            await asyncio.to_thread(app.stop, 2.0)
        assert time.monotonic() - before < 10.0
        await until(lambda: logged(caplog, "thread.leaked"), "the task is named", 10.0)
        over.set()

    asyncio.run(main())
    assert any("it is left running" in text for text in logged(caplog, "thread.leaked"))


def test_on_the_loop_itself_stop_returns_at_once(kafka: KafkaCluster, records: str) -> None:
    app = make(kafka, records, loop="host")
    begun, go_on = asyncio.Event(), asyncio.Event()
    done: list[int] = []

    @app.consumer(records)
    async def handler(messages: grete.Messages) -> None:
        begun.set()
        await go_on.wait()
        app.stop()
        await asyncio.to_thread(app.stop)  # in another thread, and for a handler all the same
        done.append(len(messages))

    async def main() -> None:
        app.start()
        await asyncio.wait_for(begun.wait(), 60.0)
        app.stop()
        assert not done, "it has not waited"
        go_on.set()
        await asyncio.to_thread(app.stop)

    asyncio.run(main())
    assert app.error is None
    assert sum(kafka.admin.committed(records).values()) == sum(done) > 0


def test_a_host_that_ends_its_loop_ends_the_app_with_an_error(
    kafka: KafkaCluster, records: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make(kafka, records, loop="host")
    inside = stuck(app, records, lambda: asyncio.Event().wait())
    before = time.monotonic()
    asyncio.run(started(app, inside))  # which cancels all tasks at its end
    with pytest.raises(grete.HostLoopError, match="ended while the App ran"):
        app.stop()
    assert time.monotonic() - before < 12.0
    assert logged(caplog, "consumer.error") == [], "no failure of a handler"
    assert kafka.admin.committed(records).get((records, 1)) == 10
    assert kafka.admin.committed(records).get((records, 0), 0) == 0
    assert kafka.admin.members(records) == {}


def test_a_loop_that_is_closed_ends_the_app_with_an_error(kafka: KafkaCluster, records: str) -> None:
    app = make(kafka, records, loop="host", stall_after="500ms")
    inside = stuck(app, records, lambda: asyncio.Event().wait())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(started(app, inside))
    loop.close()
    # Something new for the loop shows that nothing takes it.
    fill(kafka.bootstrap_servers, records, 20, partitions=2)
    eventually(lambda: app.error, 30.0, "the App's end")
    with pytest.raises(grete.HostLoopError, match="was closed while the App ran"):
        app.stop()
    assert kafka.admin.committed(records).get((records, 1)) == 10
    assert kafka.admin.members(records) == {}


def test_a_loop_that_is_closed_while_nothing_runs_does_not_keep_the_stop(kafka: KafkaCluster, records: str) -> None:
    app = make(kafka, records, loop="host")
    stuck(app, records, lambda: asyncio.sleep(0))
    loop = asyncio.new_event_loop()

    async def main() -> None:
        app.start()
        await until(lambda: app.statistics()["counts"]["records"] == 20, "all records")

    loop.run_until_complete(main())
    loop.close()
    before = time.monotonic()
    with pytest.raises(grete.HostLoopError, match="was closed while the App ran"):
        app.stop()
    assert time.monotonic() - before < 10.0
    assert sum(kafka.admin.committed(records).values()) == 20


def test_a_loop_that_does_not_run_is_named_at_the_stop(kafka: KafkaCluster, records: str) -> None:
    app = make(kafka, records, loop="host")
    inside = stuck(app, records, lambda: asyncio.Event().wait())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(started(app, inside))
    before = time.monotonic()
    with pytest.raises(grete.TimeoutError, match="in the host's event loop, which does not run"):
        app.stop(2.0)
    assert time.monotonic() - before < 10.0
    # When it runs again, what is left on it goes.
    loop.run_until_complete(others_end())
    loop.close()


def test_a_host_that_blocks_its_loop_is_named(
    kafka: KafkaCluster, records: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make(kafka, records, stall_after="500ms")
    seen: list[int] = []

    # One record a time, so that jobs are left when the loop is blocked.
    @app.consumer(records, max_messages=1)
    async def handler(messages: grete.Messages) -> None:
        await asyncio.sleep(0.05)
        seen.append(len(messages))

    async def main() -> None:
        async with app.running():
            task = asyncio.current_task()
            assert task is not None
            task.set_name("request")
            deadline = time.monotonic() + 30.0
            while not logged(caplog, "loop.blocked") and time.monotonic() < deadline:
                time.sleep(0.05)  # noqa: ASYNC251 - the host's own code
            await until(lambda: sum(seen) == 20, "all records")

    asyncio.run(main())
    (text,) = logged(caplog, "loop.blocked")
    head, _, stack = text.partition("\n")
    # On a slow machine the report is written when the loop is free again.
    assert re.match(r"the host's event loop ha[sd] been blocked for", head)
    assert "by task request, which is no handler" in head
    assert "the host's own code" in stack
    # A job that began just before the host blocked its loop may be named, too, with what it waits for.
    assert all("the event loop has been blocked for" in text for text in logged(caplog, "consumer.stalled"))


@pytest.mark.own_process
def test_a_start_that_is_cancelled_leaves_nothing_running(kafka: KafkaCluster, records: str) -> None:
    app = make(kafka, records)

    @app.consumer(records)
    async def handler(messages: grete.Messages) -> None:
        """Nothing."""

    async def main() -> None:
        task = asyncio.create_task(app.running().__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not any(thread.name.startswith(("grete-app", "grete-worker")) for thread in threading.enumerate())
    with app.running():
        until_done(kafka, app, records)


def test_a_forked_child_does_not_run_its_parents_app(kafka: KafkaCluster, records: str) -> None:
    app = make(kafka, records)
    seen: list[int] = []

    @app.consumer(records)
    async def handler(messages: grete.Messages) -> None:
        if not seen:
            child = os.fork()
            if child == 0:
                app.stop()  # not the child's to stop
                os._exit(7)
            assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1]) == 7
        seen.append(len(messages))

    async def main() -> None:
        async with app.running():
            await until(lambda: sum(seen) == 20, "all records")

    asyncio.run(main())
    assert sum(kafka.admin.committed(records).values()) == 20
