"""Hooks of the start and the stop: their order, their loop, their failures, and what a stop does with them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

import grete
from grete import testing
from grete.testing._kafka.choice import Choice
from tests.kafka import eventually
from tests.unit.lifecycle_notes import IN_ORDER, Notes
from tests.unit.test_stop import NOWHERE

pytestmark = pytest.mark.usefixtures("empty_directory")


@pytest.fixture
def brokers() -> Iterator[testing.Kafka]:
    with Choice("embedded").open({}, 1) as kafka:
        yield kafka


def add_handlers(notes: Notes) -> None:
    @notes.app.consumer("orders")
    async def handle(message: grete.Message) -> None:
        assert notes.app.state.pool == "open"
        notes.note("handle")

    @notes.app.consumer("clicks")
    def click(message: grete.Message) -> None:
        notes.note("click")


def check_with_handlers(notes: Notes) -> None:
    assert [note for note in notes.all if note not in ("handle", "click")] == IN_ORDER
    assert sorted(notes.all[3:5]) == ["click", "handle"]
    loop = notes.loops["handle"]
    assert {notes.loops[note] for note in ("enter", "open second", "close second", "leave")} == {loop}
    assert notes.threads["close first"] == "grete-lifecycle"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_hooks_run_around_the_handlers_in_order_and_on_their_loop(brokers: testing.Kafka, asynchronous: bool) -> None:
    notes = Notes(loop="auto" if asynchronous else "asyncio")
    add_handlers(notes)
    brokers.produce("orders", b"1")
    brokers.produce("clicks", b"1")

    async def run() -> None:
        async with brokers.run(notes.app) as t:
            await t.settled()
        assert notes.loops["handle"] is asyncio.get_running_loop()

    if asynchronous:
        asyncio.run(run())
    else:
        with brokers.run(notes.app) as t:
            t.settle()
        assert notes.threads["open second"] == notes.threads["handle"] == "grete-loop"
        assert notes.threads["open first"] == threading.current_thread().name
    check_with_handlers(notes)


def test_handlers_on_the_own_loop_of_an_app_in_a_host(brokers: testing.Kafka) -> None:
    notes = Notes(loop="own")
    add_handlers(notes)
    brokers.produce("orders", b"1")
    brokers.produce("clicks", b"1")

    async def run() -> None:
        async with brokers.run(notes.app) as t:
            await t.settled()

    asyncio.run(run())
    assert notes.threads["enter"] == notes.threads["handle"] == notes.threads["leave"] == "grete-loop"
    check_with_handlers(notes)


def test_a_run_until_a_signal_runs_all_hooks() -> None:
    notes = Notes()
    notes.app.consumer("orders")(lambda messages: None)
    notes.app.on_startup(lambda: os.kill(os.getpid(), signal.SIGTERM))
    notes.app.run()
    assert notes.all == IN_ORDER


@pytest.mark.own_process
def test_asynchronous_hooks_have_a_loop_without_asynchronous_handlers() -> None:
    notes = Notes(lifespan=False)
    notes.app.consumer("orders")(lambda messages: None)
    with notes.app.running():
        assert notes.all == ["open first", "open second"]
        assert any(thread.name == "grete-loop" for thread in threading.enumerate())
    assert notes.all == [note for note in IN_ORDER if note not in ("enter", "leave")]
    eventually(
        lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("grete-")], 60, "no thread"
    )


def test_hooks_run_again_at_the_next_start() -> None:
    notes = Notes()
    notes.app.consumer("orders")(lambda messages: None)
    for _ in range(2):
        with notes.app.running():
            pass
    assert notes.all == IN_ORDER * 2


def test_without_a_broker_hooks_run_around_each_call(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    add_handlers(notes)
    run = testing.consume(notes.app, "orders", [b"1"])
    assert run.marked == [0]
    assert notes.all == [*IN_ORDER[:3], "handle", *IN_ORDER[3:]]
    assert len(set(notes.loops.values())) == 1
    notes.all.clear()
    asyncio.run(testing.consume_async(notes.app, "clicks", [b"1"]))
    assert notes.all == [*IN_ORDER[:3], "click", *IN_ORDER[3:]]


def test_without_a_broker_failures_of_hooks_are_raised() -> None:
    app = grete.App("failing")
    app.consumer("orders")(lambda messages: None)
    closed: list[bool] = []
    app.on_startup(lambda: None)
    app.on_shutdown(lambda: closed.append(True))

    @app.on_shutdown
    def close() -> None:
        raise ValueError("stuck")

    with pytest.raises(
        grete.ShutdownError, match=r"on_shutdown .*close \(.*test_lifecycle.py:\d+\) failed: ValueError"
    ):
        testing.consume(app, "orders", [b"1"])
    assert closed == [True]

    @app.on_startup
    def connect() -> None:
        raise OSError("no database")

    with pytest.raises(grete.StartupError, match="connect") as caught:
        testing.consume(app, "orders", [b"1"])
    assert closed == [True, True]
    assert "close" in caught.value.__notes__[0]


def test_no_hook_of_the_stop_runs_while_a_handler_runs(
    brokers: testing.Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    app, notes = grete.App("stuck"), []
    running, release = threading.Event(), threading.Event()

    @app.consumer("orders")
    def handle(message: grete.Message) -> None:
        running.set()
        assert release.wait(60)
        notes.append("handled")

    app.on_shutdown(lambda: notes.append("closed"))
    with contextlib.ExitStack() as stack:
        stack.callback(release.set)
        t = stack.enter_context(brokers.run(app))
        brokers.produce("orders", b"1")
        assert running.wait(60)
        with pytest.raises(grete.TimeoutError, match="handle"):
            t.stop(0.4)
        assert notes == []
        assert [r.getMessage() for r in caplog.records if r.__dict__.get("event") == "app.hooks_skipped"]
    eventually(lambda: notes == ["handled"], 60, "the handler returns")


def test_hooks_see_all_deliveries_and_may_produce(brokers: testing.Kafka) -> None:
    app, notes = grete.App("produces", kafka={"linger.ms": 60_000}), []

    @app.consumer("orders")
    class Orders(grete.Consumer):
        def consume(self) -> None:
            self.producer.fire_and_forget.produce(
                "invoices", b"1", on_delivery=lambda delivery: notes.append(f"delivered {delivery.offset}")
            )
            handled.set()

    handled = threading.Event()
    app.on_shutdown(lambda: notes.append("closed"))
    with brokers.run(app):
        brokers.produce("orders", b"1")
        assert handled.wait(60)
    assert notes == ["delivered 0", "closed"]


def test_a_hook_that_hangs_is_named_and_offsets_are_committed(
    brokers: testing.Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    app = grete.App("hangs", kafka={"auto.commit.interval.ms": 3_600_000})
    release, handled = threading.Event(), threading.Event()

    @app.consumer("orders")
    def handle(message: grete.Message) -> None:
        handled.set()

    app.on_shutdown(lambda: None)
    app.on_shutdown(release.wait)
    try:
        with brokers.run(app) as t:
            brokers.produce("orders", b"1")
            assert handled.wait(60)
            with pytest.raises(grete.TimeoutError, match=r"on_shutdown Event.wait \(.*\) runs.*has not run"):
                t.stop(1.0)
    finally:
        release.set()
    assert brokers.committed("orders", "hangs") == {0: 1}
    assert [r for r in caplog.records if r.__dict__.get("event") == "app.hook_unfinished"]


def test_an_asynchronous_hook_that_hangs_is_cancelled() -> None:
    app, notes = grete.App("hangs", kafka=NOWHERE), []
    app.consumer("orders")(lambda messages: None)
    app.on_shutdown(lambda: notes.append("closed"))

    @app.on_shutdown
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            notes.append("cancelled")

    app.start()
    with pytest.raises(grete.ShutdownError, match=r"hang .* did not end within .* and was cancelled"):
        app.stop(1.0)
    assert notes == ["cancelled", "closed"]


def test_tasks_of_a_hook_live_until_the_hooks_of_the_stop_have_run(brokers: testing.Kafka) -> None:
    app, notes = grete.App("tasks", loop="asyncio"), []

    @app.on_startup
    async def begin() -> None:
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                notes.append("cancelled")

        app.state.task = asyncio.create_task(work())

    @app.consumer("orders")
    async def handle(message: grete.Message) -> None:
        notes.append("handled")

    @app.on_shutdown
    async def end() -> None:
        notes.append(f"done {app.state.task.done()}")

    brokers.produce("orders", b"1")
    with brokers.run(app) as t:
        t.settle()
    assert notes == ["handled", "done False", "cancelled"]


def test_asynchronous_hooks_on_a_loop_that_the_start_blocks_are_refused() -> None:
    app = grete.App("blocked", kafka=NOWHERE, loop="host")
    app.consumer("orders")(lambda messages: None)

    @app.on_startup
    async def connect() -> None:
        pass

    async def run() -> None:
        app.start()

    with pytest.raises(grete.ConfigError, match=r"async with app\.running"):
        asyncio.run(run())


# Declarations


def test_wrong_declarations_name_the_line_and_the_cure() -> None:
    app = grete.App("wrong")

    def takes(_pool: object) -> None: ...

    def yields() -> Iterator[None]:
        yield

    for function, cure in ((3, "without parentheses"), (takes, "without arguments"), (yields, "lifespan=")):
        for declare in (app.on_startup, app.on_shutdown):
            with pytest.raises(grete.ConfigError, match=cure) as caught:
                declare(function)  # type: ignore[type-var]
            assert caught.value.location is not None
            assert "test_lifecycle.py" in caught.value.location

    async def coroutine(_app: grete.App) -> None: ...

    async def generator(_app: grete.App) -> AsyncIterator[None]:
        yield

    for lifespan, cure in (
        (3, "lifespan= takes"),
        (coroutine, "asynccontextmanager"),
        (generator, "asynccontextmanager"),
    ):
        with pytest.raises(grete.ConfigError, match=cure):
            grete.App("wrong", lifespan=lifespan)  # type: ignore[arg-type]


def test_what_hooks_return_and_yield_is_checked() -> None:
    async def nothing() -> None: ...

    app = grete.App("returns", kafka=NOWHERE)
    app.consumer("orders")(lambda messages: None)
    app.on_startup(lambda: nothing())
    with pytest.raises(grete.StartupError, match="make it an async def"):
        app.start()

    @asynccontextmanager
    async def lifespan(_app: grete.App) -> AsyncIterator[int]:
        yield 3

    app = grete.App("yields", kafka=NOWHERE, lifespan=lifespan)
    app.consumer("orders")(lambda messages: None)
    with pytest.raises(grete.StartupError, match="yields nothing, or a mapping"):
        app.start()

    app = grete.App("plain", kafka=NOWHERE, lifespan=lambda _app: contextlib.nullcontext)  # type: ignore[arg-type,return-value]
    app.consumer("orders")(lambda messages: None)
    with pytest.raises(grete.StartupError, match="not an asynchronous context manager"):
        app.start()


def test_state_has_what_was_set_and_says_what_is_missing() -> None:
    app = grete.App("state")
    app.state.pool = 3
    assert app.state.pool == 3
    assert "pool" in app.state
    assert list(app.state) == ["pool"]
    with pytest.raises(AttributeError, match=r'app\.state has no "cache", only pool'):
        _ = app.state.cache
    del app.state.pool
    assert "pool" not in app.state
    assert not hasattr(app.state, "pool")


def test_hooks_are_events(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    notes = Notes()
    notes.app.consumer("orders")(lambda messages: None)
    heard: list[str] = []
    notes.app.monitor.subscribe("app.hook_ran", lambda event: heard.append(f"{event['kind']} {event['time'] >= 0}"))
    with notes.app.running():
        pass
    kinds = ["lifespan", "on_startup", "on_startup", "on_shutdown", "on_shutdown", "lifespan"]
    assert heard == [f"{kind} True" for kind in kinds]
    assert "on_startup Notes.open_first (" in caplog.text
