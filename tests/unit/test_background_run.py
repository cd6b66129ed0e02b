"""An App inside of a process that does other things, with a broker that is not there."""

import asyncio
import contextlib
import faulthandler
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import grete
from tests.kafka import eventually
from tests.unit.inherited_state import descriptors
from tests.unit.test_stop import NOWHERE, make, threads

pytestmark = [pytest.mark.usefixtures("empty_directory"), pytest.mark.own_process]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN)


def alive() -> set[str]:
    """The names of all threads, Python's and others."""
    return threads() | {thread.name for thread in threading.enumerate()}


@contextlib.contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Threads, descriptors, signal handlers are what they were before."""
    gc.collect()  # what others have left is not ours to count

    def there() -> tuple[object, ...]:
        return (descriptors(), threading.active_count(), [signal.getsignal(number) for number in SIGNALS])

    before = there()
    yield
    eventually(lambda: not threads(), 10.0, "threads that were asked to end do so by themselves")
    eventually(lambda: there() == before, 10.0, lambda: f"{before}, not {there()}")


def test_start_returns_while_it_runs_and_stop_when_it_is_over() -> None:
    app = make(workers=3)
    with nothing_left_behind():
        for _ in range(2):
            handlers = [signal.getsignal(number) for number in SIGNALS]
            app.start()
            # A native thread gives itself its name, a moment after it has been started.
            eventually(lambda: {"grete-app", "grete-net", "grete-worker-3"} <= alive(), 30.0, "they have their names")
            assert "grete-signals" not in alive()
            assert handlers == [signal.getsignal(number) for number in SIGNALS]
            with pytest.raises(grete.GreteError, match='"stop" runs already'):
                app.start()
            with pytest.raises(grete.GreteError, match='"stop" runs already'):
                app.run()
            app.stop()
            assert app.error is None
            app.stop(timeout=0.0)  # over is over


def test_stop_may_be_called_by_many_at_once_and_by_who_has_started_nothing() -> None:
    app = make()
    app.stop()
    app.start()
    callers = [threading.Thread(target=app.stop) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not any(thread.name.startswith("grete-worker") for thread in threading.enumerate())


def test_what_is_wrong_is_raised_by_start_and_nothing_stays_open() -> None:
    with nothing_left_behind():
        with pytest.raises(grete.ConfigError, match="no consumer"):
            grete.App("empty", kafka=NOWHERE).start()
        app = make(group="one")
        app.consumer("clicks", group="two")(lambda messages: None)
        # Known only to the client, and only when the first group's runs already.
        app.override({}, {"session.timeout.ms": 10, "heartbeat.interval.ms": 3000})
        with pytest.raises(grete.GreteError, match="heartbeat"):
            app.start()
        app.stop()


def test_a_block_in_which_it_runs() -> None:
    app = make()
    with app.running() as running:
        assert running is app
        assert "grete-app" in alive()
    assert "grete-app" not in alive()
    with pytest.raises(LookupError, match="mine"), app.running():
        raise LookupError("mine")
    app.start()
    app.stop()


def test_a_block_of_a_coroutine() -> None:
    async def serve(app: grete.App) -> None:
        async with app.running():
            assert "grete-app" in alive()

    app = make()
    asyncio.run(serve(app))
    app.start()
    app.stop()


def test_quiet_and_scale_are_for_apps_that_run() -> None:
    app = make(workers=1)
    for call in (app.quiet, lambda: app.scale(2)):
        with pytest.raises(grete.GreteError, match='"stop" does not run'):
            call()
    with app.running():
        app.scale(3)
        assert "grete-worker-3" in alive()
        with pytest.raises(grete.ConfigError, match="from 1 up"):
            app.scale(0)
        app.quiet()


def test_scale_during_the_start_says_that_there_are_no_workers_yet() -> None:
    app = make(workers=1)
    refused: list[grete.GreteError] = []

    @app.on_startup
    def scale() -> None:
        with pytest.raises(grete.GreteError, match="has no workers yet") as raised:
            app.scale(7)
        refused.append(raised.value)
        assert "does not run" in app._repr_html_()

    with app.running():
        assert len(refused) == 1
        assert "grete-worker-2" not in alive()


def test_an_error_that_ends_it_is_there_to_be_seen_and_raised_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(1024)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(1024):
                            pass

        peer = threading.Thread(target=answer)
        peer.start()
        app = grete.App("web", kafka={"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"})
        app.consumer("orders")(lambda messages: None)
        app.start()
        eventually(lambda: app.error, 30.0, "the end of an App whose peer is a web server")
        assert isinstance(app.error, grete.NotKafkaError)
        with pytest.raises(grete.NotKafkaError):
            app.stop()
        app.stop()
        assert isinstance(app.error, grete.NotKafkaError)
        server.shutdown(socket.SHUT_RDWR)
        peer.join()


def test_a_forked_child_starts_its_own() -> None:
    app = make(workers=1)
    app.start()
    child = os.fork()
    if child == 0:
        status = 1
        # One that hangs says where, and does not outlive the test. (Not by `dump_traceback_later`: pytest's own use
        # of it has left a thread behind in the parent, and the child would wait for that one forever.)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, file=2, chain=True)
        signal.alarm(60)
        try:
            app.stop()  # not the parent's
            with app.running():
                status = 0 if "grete-worker-1" in alive() else 3
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert "grete-worker-1" in alive()
    app.stop()


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "app.stop()"])
def test_the_interpreter_may_end_meanwhile(tmp_path: Path, end: str) -> None:
    script = f"""
import grete
app = grete.App("stop", kafka={NOWHERE!r})
app.consumer("orders")(lambda messages: None)
app.start()
{end}
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Traceback" not in done.stderr


def test_hooks_of_the_stop_run_when_the_interpreter_ends(tmp_path: Path) -> None:
    script = f"""
import grete
app = grete.App("stop", kafka={NOWHERE!r})
app.consumer("orders")(lambda messages: None)
@app.on_shutdown
def plain():
    print("plain")
@app.on_shutdown
async def asynchronous():
    print("asynchronous")
app.start()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "asynchronous\nplain\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_no_thread_is_left_of_a_stop_in_time() -> None:
    app = grete.App("threads", kafka=NOWHERE)
    app.consumer("orders")(asynchronous)
    app.on_shutdown(lambda: None)
    before = alive()
    with app.running():
        assert "grete-standby" in alive()
    # The thread of the deadline is asked to end, and the stop does not wait for it.
    eventually(lambda: alive() == before, 10.0, lambda: f"{alive()}, not {before}")


async def asynchronous(_messages: grete.Messages) -> None:
    """Nothing."""


def test_a_hosts_loop_has_to_be_there() -> None:
    app = grete.App("host", kafka=NOWHERE, loop="host")
    app.consumer("orders")(asynchronous)
    for start in (app.start, app.run):
        with pytest.raises(grete.ConfigError, match="is not started on a running event loop"):
            start()

    async def main() -> None:
        async with app.running():
            assert not any(thread.name == "grete-loop" for thread in threading.enumerate())

    with nothing_left_behind():
        asyncio.run(main())


def test_a_start_on_a_closed_loop_is_an_error_of_its_own() -> None:
    app = grete.App("host", kafka=NOWHERE)
    app.consumer("orders")(asynchronous)
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(grete.HostLoopError, match="is closed: start the App while it runs"):
        app._start_in_background(loop)
    assert not any(thread.name.startswith("grete-app") for thread in threading.enumerate())
    app.stop()
