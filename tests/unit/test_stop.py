"""Starting and stopping, with a broker that is not there."""

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import grete
from tests.kafka import eventually
from tests.unit.inherited_state import descriptors

pytestmark = pytest.mark.usefixtures("empty_directory")

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def make(**settings: object) -> grete.App:
    app = grete.App("stop", kafka=NOWHERE, **settings)  # type: ignore[arg-type]
    app.consumer("orders")(lambda messages: None)
    return app


def threads() -> set[str]:
    """The names of all threads of this process, native ones included."""
    names = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            names.add((task / "comm").read_text().strip())
        except OSError:
            continue  # it has just ended
    return {name for name in names if name.startswith("grete")}


@pytest.mark.own_process
def test_run_returns_after_stop_and_leaves_nothing_behind() -> None:
    app = make(workers=3)

    def there() -> tuple[object, ...]:
        handlers = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
        return (*handlers, descriptors(), threading.active_count())

    gc.collect()  # what others have left is not ours to count
    before = there()
    running: list[set[str]] = []

    def stop_it() -> None:
        eventually(lambda: "grete-net" in threads(), 30.0, "the network thread")
        running.append(threads())
        app.stop()

    thread = threading.Thread(target=stop_it)
    thread.start()
    app.run()
    thread.join()
    assert "grete-net" in running[0]
    eventually(lambda: not threads(), 10.0, "threads that were asked to end do so by themselves")
    eventually(lambda: there() == before, 10.0, lambda: f"{before}, not {there()}")
    app.stop()  # nothing to do, nothing said


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_run_of_the_main_thread(signum: signal.Signals) -> None:
    app = make()
    before = signal.getsignal(signum)

    def send() -> None:
        eventually(lambda: signal.getsignal(signum) is not before, 30.0, "the App's signal handler")
        os.kill(os.getpid(), signum)

    thread = threading.Thread(target=send)
    thread.start()
    app.run()
    thread.join()


def test_an_app_runs_once_at_a_time_and_again_afterwards() -> None:
    app = make()
    errors: list[BaseException] = []

    def run_twice() -> None:
        try:
            app.run()
        except grete.GreteError as error:
            errors.append(error)
        app.stop()

    app.monitor.subscribe("app.running", lambda event: threading.Thread(target=run_twice).start())
    app.run()
    assert [str(error) for error in errors] == ['App "stop" runs already']
    errors.clear()
    app.run()
    assert [str(error) for error in errors] == ['App "stop" runs already']


PROLOGUE = """
import ctypes, logging, os, signal, sys, threading, time
import grete
app = grete.App("stop", kafka={"bootstrap.servers": "127.0.0.1:1"}, shutdown_timeout="1s")
@app.consumer("orders")
def orders(messages): pass
def ready():
    os.write(1, b"\\nready\\n")  # one system call: log lines of other threads do not get in between
def hold_the_gil():
    # One call, so that no other thread gets the GIL between the word and the wait.
    ctypes.PyDLL(None).system(b"printf '\\\\nready\\\\n'; exec sleep 10 >/dev/null 2>&1")
"""


@pytest.fixture
def process(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[str]"]:
    """A Python process that has said that it is ready."""
    (tmp_path / "main.py").write_text(PROLOGUE + textwrap.dedent(request.param))
    with subprocess.Popen(
        [sys.executable, "main.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if line == "ready\n":
                    break
            assert "ready\n" in said, "".join(said)
            yield process
        finally:
            process.kill()


RUNNING = """
class Running(logging.Handler):
    def emit(self, record):
        if record.event == "app.running":
            ready()
logging.getLogger("grete").addHandler(Running())
logging.getLogger("grete").setLevel("INFO")
app.run()
print("over")
"""


# The GIL is held once signals are handled.
HELD = RUNNING.replace("ready()", "threading.Thread(target=hold_the_gil).start()")


@pytest.mark.parametrize("process", [RUNNING], indirect=True)
def test_sigterm_ends_a_process_cleanly(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output.splitlines()[-1]) == (0, "over")


@pytest.mark.parametrize("process", [HELD], indirect=True)
def test_the_deadline_holds_while_a_thread_holds_the_gil(process: "subprocess.Popen[str]") -> None:
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    assert 0.9 < time.monotonic() - started < 9
    assert "in hold_the_gil" in output  # all stacks, by faulthandler


@pytest.mark.parametrize("process", [RUNNING], indirect=True)
def test_sigttin_dumps_stacks_and_goes_on(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTTIN)
    assert process.stdout is not None
    assert any("most recent call first" in line for line in process.stdout)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output.splitlines()[-1]) == (0, "over")


@pytest.mark.parametrize("process", [HELD], indirect=True)
def test_sigttin_dumps_stacks_while_a_thread_holds_the_gil(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTTIN)
    assert process.stdout is not None
    # Within the ten seconds of the holder: it is among the stacks.
    assert any(f"stacks of process {process.pid}" in line for line in process.stdout)
    assert any("in hold_the_gil" in line for line in process.stdout)


@pytest.mark.parametrize(
    "process",
    [
        """
        def hold_when_signals_are_handled():
            while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                time.sleep(0.01)
            hold_the_gil()
        threading.Thread(target=hold_when_signals_are_handled).start()
        full, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while True: os.write(write, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(write, True)
        os.dup2(write, 2)
        app.run()
        """
    ],
    indirect=True,
)
def test_the_deadline_holds_though_the_output_is_not_read(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=9)
    assert process.returncode == 2


UNCLOSED = """
consumer = grete.client.Consumer({"bootstrap.servers": "127.0.0.1:1"})
consumer.assign([("orders", 0, 0)])
assert not consumer.poll(0.05)
ready()
"""


@pytest.mark.parametrize("process", [UNCLOSED, "threading.Thread(target=app.run).start()\nready()"], indirect=True)
def test_the_interpreter_ends_without_a_close(process: "subprocess.Popen[str]") -> None:
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output


def test_a_consumer_without_broker_waits_and_closes() -> None:
    consumer = grete.client.Consumer(NOWHERE)
    consumer.assign([("orders", 0, "earliest"), ("orders", 1, 5)])
    started = time.monotonic()
    assert len(consumer.poll(0.2)) == 0
    assert 0.15 < time.monotonic() - started < 10
    assert consumer.assignment() == [("orders", 0), ("orders", 1)]
    assert repr(consumer) == "<grete.client.Consumer of 2 partitions>"
    with pytest.raises(grete.TimeoutError) as caught:
        consumer.partitions("orders", timeout=0.1)
    assert isinstance(caught.value, TimeoutError)
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.assignment, consumer.commit):
        with pytest.raises(grete.ClosedError):
            call()


def test_waiters_fail_at_once_when_the_peer_is_not_kafka() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(1024)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                        # Unread bytes would make the end a reset, and a reset may overtake the answer.
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(1024):
                            pass

        peer = threading.Thread(target=answer)
        peer.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with grete.client.Consumer({"bootstrap.servers": address, "reconnect.backoff.ms": 1000}) as consumer:
            started = time.monotonic()
            with pytest.raises(grete.NotKafkaError, match=f"{address} answers like an HTTP server"):
                consumer.partitions("orders", timeout=60)
            with pytest.raises(grete.NotKafkaError):
                consumer.poll(60)
            # Who asks when it is known already does not wait, either.
            with pytest.raises(grete.NotKafkaError):
                consumer.partitions("orders", timeout=60)
            assert time.monotonic() - started < 30
        server.shutdown(socket.SHUT_RDWR)  # wakes the thread that sits in accept
        peer.join()


def test_a_poll_can_be_interrupted() -> None:
    class Interrupted(Exception):  # noqa: N818
        pass

    def handler(_signum: int, _frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with grete.client.Consumer(NOWHERE) as consumer:
            consumer.assign([("orders", 0, 0)])
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Interrupted):
                consumer.poll(60)
            assert not consumer.poll(0.01)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_wrong_arguments_of_a_consumer() -> None:
    with pytest.raises(grete.ConfigError, match="bootstrap"):
        grete.client.Consumer({})
    with pytest.raises(grete.ConfigError, match=r'did you mean "bootstrap\.servers"'):
        grete.client.Consumer({"bootstrap.server": "x:1"})
    with pytest.raises(grete.ConfigError, match="has no unit"):
        grete.client.Consumer({**NOWHERE, "queued_bytes": "64"})
    with grete.client.Consumer({**NOWHERE, "queued_bytes": "1MiB"}) as consumer:
        with pytest.raises(ValueError, match="negative"):
            consumer.assign([("orders", 0, -1)])
        with pytest.raises(ValueError, match='"earliest", "latest"'):
            consumer.assign([("orders", 0, "beginning")])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="a datetime"):
            consumer.assign([("orders", 0, 1.5)])  # type: ignore[list-item]
        with pytest.raises(grete.ConfigError, match="list of topics"):
            consumer.subscribe("orders")
        with pytest.raises(grete.GreteError, match=r"group\.id"):
            consumer.subscribe(["orders"])
        with pytest.raises(ValueError, match="max_messages is from 1"):
            consumer.poll(0, 0)
        with pytest.raises(ValueError, match="number of seconds"):
            consumer.poll(-1)
        with pytest.raises(TypeError, match="commit takes"):
            consumer.commit(3)  # type: ignore[arg-type]


def test_one_thread_polls() -> None:
    with grete.client.Consumer(NOWHERE) as consumer:
        consumer.assign([("orders", 0, 0)])
        refused: list[str] = []

        def poll() -> None:
            try:
                while not refused:
                    consumer.poll(0.2)
            except RuntimeError as error:
                refused.append(str(error))

        pollers = [threading.Thread(target=poll) for _ in range(2)]
        for poller in pollers:
            poller.start()
        for poller in pollers:
            poller.join()
    assert refused[0].startswith("two threads poll at once")
