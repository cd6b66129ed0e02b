"""Hooks of the start and the stop: their order, their loop, their failures, and what a stop does with them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import grete
from grete import testing
from grete.testing._kafka.choice import Choice
from tests.kafka import eventually
from tests.unit.test_stop import NOWHERE

pytestmark = pytest.mark.usefixtures("empty_directory")


@pytest.fixture
def brokers() -> Iterator[testing.Kafka]:
    with Choice("embedded").open({}, 1) as kafka:
        yield kafka


class Notes:
    """An App whose hooks note that they run, and where."""

    def __init__(self, *, lifespan: bool = True, **settings: Any) -> None:
        self.all: list[str] = []
        self.threads: dict[str, str] = {}
        self.loops: dict[str, asyncio.AbstractEventLoop] = {}
        self.app = app = grete.App("notes", lifespan=self.lifespan if lifespan else None, kafka=NOWHERE, **settings)
        app.on_startup(self.open_first)
        app.on_startup(self.open_second)
        app.on_shutdown(self.close_first)
        app.on_shutdown(self.close_second)

    def note(self, what: str) -> None:
        self.all.append(what)
        self.threads[what] = threading.current_thread().name
        with contextlib.suppress(RuntimeError):
            self.loops[what] = asyncio.get_running_loop()

    @asynccontextmanager
    async def lifespan(self, app: grete.App) -> AsyncIterator[dict[str, Any]]:
        assert app is self.app
        self.note("enter")
        yield {"pool": "open"}
        self.note("leave")

    def open_first(self) -> None:
        self.note("open first")

    async def open_second(self) -> None:
        await asyncio.sleep(0)
        self.note("open second")

    def close_first(self) -> None:
        self.note("close first")

    async def close_second(self) -> None:
        await asyncio.sleep(0)
        self.note("close second")


IN_ORDER = ["enter", "open first", "open second", "close second", "close first", "leave"]


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
    assert "test_lifecycle.py:" in caught.value.location
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
    with pytest.raises(grete.ShutdownError, match=r"close \(.*test_lifecycle.py:\d+\) failed: ValueError: stuck"):
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


# Processes

PROGRAM = """
import asyncio, os, sys, threading
import grete

app = grete.App("program", kafka={"bootstrap.servers": "127.0.0.1:1"}, shutdown_timeout=SECONDS)

def say(text):
    os.write(1, f"{os.getpid()} {text}\\n".encode())

@app.consumer("orders")
async def handle(message: grete.Message) -> None:
    pass

@app.preload
def preload():
    app.state.shared = os.getpid()
    say("preload")

@app.on_startup
async def connect():
    app.state.own = os.getpid()
    say(f"startup {app.state.shared}")

@app.on_shutdown
def close():
    say(f"shutdown {app.state.own}")
    HANG
"""


def program(directory: Path, *, seconds: float = 30.0, hang: str = "") -> None:
    text = PROGRAM.replace("SECONDS", str(seconds)).replace("HANG", hang)
    (directory / "program.py").write_text(text)


def spawn(directory: Path, *words: str) -> subprocess.Popen[str]:
    python_path = os.pathsep.join([str(directory), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "grete", *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": python_path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(process: subprocess.Popen[str], text: str, times: int = 1) -> list[str]:
    """Lines up to the one that has the text for the last time."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.strip())
        times -= text in line
        if not times:
            return lines
    raise AssertionError(f"{lines} {process.stderr.read() if process.stderr else ''}")


def test_grete_run_runs_hooks_until_sigterm(tmp_path: Path) -> None:
    program(tmp_path)
    with spawn(tmp_path, "run", "program:app") as process:
        until(process, "startup")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"{process.pid} shutdown {process.pid}" in out


def test_a_failed_start_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    program(tmp_path)
    source = (tmp_path / "program.py").read_text().replace("    app.state.own = os.getpid()", "    1 / 0")
    (tmp_path / "program.py").write_text(source)
    with spawn(tmp_path, "run", "program:app") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Error: on_startup connect (program.py:" in err
    assert "ZeroDivisionError" in err
    assert "Traceback" not in err


def test_a_hook_that_hangs_forces_the_stop(tmp_path: Path) -> None:
    program(tmp_path, seconds=1.0, hang="threading.Event().wait()")
    with spawn(tmp_path, "run", "program:app") as process:
        until(process, "startup")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert "on_shutdown close (program.py:" in err
    assert "threading.Event().wait()" in err, "the stack says where"


def test_each_node_of_a_swarm_runs_the_hooks_after_the_fork(tmp_path: Path) -> None:
    program(tmp_path)
    with spawn(tmp_path, "swarm", "program:app", "--nodes", "2", "--control", "none") as process:
        lines = until(process, "startup", times=2)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert [line for line in lines if "preload" in line] == [f"{process.pid} preload"]
    nodes = {line.split()[0] for line in lines if "startup" in line}
    assert len(nodes) == 2
    assert str(process.pid) not in nodes
    assert {line for line in lines if "startup" in line} == {f"{node} startup {process.pid}" for node in nodes}
    assert set(out.splitlines()) == {f"{node} shutdown {node}" for node in nodes}


def test_plain_hooks_start_no_event_loop(tmp_path: Path) -> None:
    script = """
    import threading
    import grete
    app = grete.App("plain", kafka={"bootstrap.servers": "127.0.0.1:1"})
    app.consumer("orders")(lambda messages: None)
    app.on_startup(lambda: None)
    app.on_shutdown(lambda: None)
    with app.running():
        print(sorted(thread.name for thread in threading.enumerate() if "loop" in thread.name))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_an_interpreter_that_ends_runs_the_hooks_of_an_app_that_still_runs(tmp_path: Path) -> None:
    script = """
    import grete
    app = grete.App("left", kafka={"bootstrap.servers": "127.0.0.1:1"})
    app.consumer("orders")(lambda messages: None)

    @app.on_shutdown
    async def close():
        print("closed", flush=True)

    app.start()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("closed\n", 0), done.stderr


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
