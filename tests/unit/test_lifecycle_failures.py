"""Hooks of the start and the stop that fail, are cancelled, or stop the App."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import grete
from tests.kafka import eventually
from tests.unit.lifecycle_notes import IN_ORDER, Notes
from tests.unit.test_stop import NOWHERE

pytestmark = pytest.mark.usefixtures("empty_directory")


def failing(first: Callable[[], Any] | None = None) -> tuple[grete.App, list[str]]:
    app, notes = grete.App("failing", kafka=NOWHERE), []
    app.consumer("orders")(lambda messages: None)
    if first is not None:
        app.on_startup(first)

    @app.on_startup
    def connect() -> None:
        raise OSError("no database")

    @app.on_startup
    def after() -> None:
        notes.append("after")

    @app.on_shutdown
    def close() -> None:
        notes.append("close")

    return app, notes


def test_a_failed_start_names_the_hook_and_ends_what_has_started(caplog: pytest.LogCaptureFixture) -> None:
    app, notes = failing(lambda: None)
    with pytest.raises(grete.StartupError) as caught:
        app.start()
    text = str(caught.value)
    assert text.startswith("on_startup failing.<locals>.connect (")
    assert "test_lifecycle_failures.py:" in caught.value.location
    assert 'raise OSError("no database")' in text
    assert "OSError: no database" in text
    assert "lifecycle_run.py" not in text, "no frames of Grete's"
    assert isinstance(caught.value.__cause__, OSError)
    assert notes == ["close"]
    app.stop()  # nothing runs


def test_a_failed_start_closes_nothing_if_nothing_was_opened() -> None:
    app, notes = failing()
    with pytest.raises(grete.StartupError):
        app.run()
    assert notes == []


def test_a_failed_start_leaves_the_lifespan() -> None:
    notes = Notes()
    notes.app.consumer("orders")(lambda messages: None)

    @notes.app.on_startup
    async def connect() -> None:
        raise OSError("no database")

    with pytest.raises(grete.StartupError, match="connect"):
        notes.app.run()
    assert notes.all == IN_ORDER


def test_sys_exit_in_a_hook_is_a_failed_start() -> None:
    app = grete.App("exit", kafka=NOWHERE)
    app.consumer("orders")(lambda messages: None)
    app.on_startup(lambda: sys.exit(3))
    with pytest.raises(grete.StartupError, match=r"called sys.exit\(3\)"):
        app.start()


def test_an_error_of_the_stop_is_raised_and_keeps_no_other_hook_from_running(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    notes.app.consumer("orders")(lambda messages: None)

    @notes.app.on_shutdown
    def close() -> None:
        raise ValueError("stuck")

    notes.app.start()
    with pytest.raises(
        grete.ShutdownError, match=r"close \(.*test_lifecycle_failures.py:\d+\) failed: ValueError: stuck"
    ):
        notes.app.stop()
    assert notes.all == IN_ORDER
    (record,) = [record for record in caplog.records if record.__dict__.get("event") == "app.hook_failed"]
    assert record.exc_info is not None


def test_a_lifespan_that_ends_while_the_app_runs_ends_the_app() -> None:
    crash = asyncio.Event()

    @asynccontextmanager
    async def lifespan(app: grete.App) -> AsyncIterator[None]:
        async def watch(task: asyncio.Task[Any] | None) -> None:
            await crash.wait()
            assert task is not None
            task.cancel()

        watcher = asyncio.create_task(watch(asyncio.current_task()))
        yield
        await watcher

    app = grete.App("ends", kafka=NOWHERE, lifespan=lifespan)
    app.consumer("orders")(lambda messages: None)

    async def run() -> None:
        async with app.running():
            crash.set()
            await asyncio.to_thread(lambda: eventually(lambda: app.error is not None, 60, "the App has ended"))

    with pytest.raises(grete.LifecycleError, match=r"lifespan .* ended while the App ran"):
        asyncio.run(run())


def test_a_stop_cancels_an_asynchronous_hook_of_the_start() -> None:
    app, notes = grete.App("hangs", kafka=NOWHERE), []
    app.consumer("orders")(lambda messages: None)
    entered = threading.Event()
    app.on_startup(lambda: notes.append("opened"))

    @app.on_startup
    async def hang() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            notes.append("cancelled")

    app.on_startup(lambda: notes.append("never"))
    app.on_shutdown(lambda: notes.append("closed"))
    starter = threading.Thread(target=app.start)
    starter.start()
    assert entered.wait(60)
    app.stop()
    starter.join(60)
    assert notes == ["opened", "cancelled", "closed"]


def test_a_cancelled_start_in_a_host_cancels_the_hook() -> None:
    app, notes = grete.App("hangs", kafka=NOWHERE), []
    app.consumer("orders")(lambda messages: None)

    async def run() -> None:
        entered = asyncio.Event()

        @app.on_startup
        async def hang() -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                notes.append("cancelled")

        task = asyncio.ensure_future(app.running().__aenter__())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert notes == ["cancelled"]


def test_a_hook_may_stop_the_app() -> None:
    app, notes = grete.App("stops", kafka=NOWHERE), []
    app.consumer("orders")(lambda messages: None)
    app.on_startup(app.stop)
    app.on_startup(lambda: notes.append("never"))
    app.on_shutdown(app.stop)
    app.on_shutdown(lambda: notes.append("closed"))
    app.start()
    app.stop()
    assert notes == ["closed"]
