"""`python -m tests.unit.parent_app SCENE`: an App that has children while it runs. Says what they are like, in JSON."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.context import ForkContext, ForkServerContext, SpawnContext
from typing import Any

Said = dict[str, Any]

# What a test wants to happen in a child before Grete's hook: hooks run in the order of their registration.
in_child: list[Callable[[], object]] = []
os.register_at_fork(after_in_child=lambda: [hook() for hook in in_child])

import grete  # noqa: E402
from grete._cli.terminal.interrupt import Interrupt  # noqa: E402
from tests.kafka import eventually  # noqa: E402
from tests.unit.inherited_state import MASKS, PLACED, actions, fork_child, inherited_state, wait_exit  # noqa: E402

_NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def saying(make: Callable[[Callable[[], None]], Callable[[], object]]) -> Said:
    """What `inherited` is in a child: `make(say)` makes one in which `say` is called, and returns the wait for it."""
    read, write = os.pipe()

    def say() -> None:
        os.close(read)
        said = inherited_state()
        del said["open"][str(write)]
        os.write(write, json.dumps(said).encode())

    wait = make(say)
    os.close(write)
    with os.fdopen(read) as pipe:
        said: Said = json.load(pipe)
    wait()
    return said


# Each of these is done while the App runs, in another thread than the main one.


def fork() -> Said:
    def make(say: Callable[[], None]) -> Callable[[], object]:
        pid = fork_child(say)
        return lambda: wait_exit(pid)

    return saying(make)


def grandchild() -> Said:
    def make(say: Callable[[], None]) -> Callable[[], object]:
        pid = fork_child(lambda: wait_exit(fork_child(say)))
        return lambda: wait_exit(pid)

    return saying(make)


def process() -> Said:
    def make(say: Callable[[], None]) -> Callable[[], object]:
        child = multiprocessing.get_context("fork").Process(target=say)
        child.start()
        return child.join

    said = saying(make)
    # multiprocessing's own: /dev/null for stdin, and the pipe that ends with the parent.
    own = (os.devnull, "pipe:")
    said["open"] = {fd: target for fd, target in said["open"].items() if not target.startswith(own)}
    return said


def preexec() -> Said:
    def make(say: Callable[[], None]) -> Callable[[], object]:
        return subprocess.Popen(["true"], preexec_fn=say, restore_signals=False).wait

    return saying(make)


def executed() -> Said:
    """A program gets no handler; what is ignored and blocked stays so."""
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    masks = {name: int(value, 16) for name, _, value in map(_parted, status.splitlines()) if name in MASKS}
    listed = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True, check=True).stdout.split()
    return {**masks, "open": listed}


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def signals() -> Said:
    """Each is sent to a child of its own, which waits for it."""

    def wait(write: int) -> int:
        try:
            os.write(write, b".")
            signal.sigtimedwait([], 20)
        except KeyboardInterrupt:
            return 77
        return 0

    said = {}
    for signum in (*PLACED, signal.SIGHUP, signal.SIGRTMAX):
        read, write = os.pipe()
        pid = fork_child(lambda write=write: wait(write))  # type: ignore[misc]
        os.read(read, 1)
        os.kill(pid, signum)
        said[signal.Signals(signum).name] = wait_exit(pid)
        os.close(read)
        os.close(write)
    return said


def many() -> Said:
    """Each child gets a SIGTERM at once."""
    statuses = set()
    for _ in range(100):
        pid = fork_child(lambda: signal.sigtimedwait([], 20))
        os.kill(pid, signal.SIGTERM)
        statuses.add(wait_exit(pid))
    return {"statuses": sorted(statuses)}


def early() -> Said:
    """It comes before Grete's hook."""
    said = {}
    for signum in (signal.SIGTERM, signal.SIGINT):
        (read, there), (sent, write) = os.pipe(), os.pipe()
        in_child[:] = [lambda there=there, sent=sent: (os.write(there, b"."), os.read(sent, 1))]  # type: ignore[misc]
        pid = fork_child(lambda: signal.sigtimedwait([], 20))
        os.read(read, 1)
        os.kill(pid, signum)
        os.write(write, b".")
        said[signal.Signals(signum).name] = wait_exit(pid)
        for fd in (read, there, sent, write):
            os.close(fd)
    return said


def square(number: int) -> int:
    return number * number


def pause() -> None:
    signal.sigtimedwait([], 20)


def _pools(context: ForkContext | ForkServerContext | SpawnContext) -> Said:
    with context.Pool(2) as pool:  # terminates it
        mapped = pool.map(square, range(4))
    child = context.Process(target=pause)
    child.start()
    child.terminate()
    child.join(20)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        executed = list(executor.map(square, range(4)))
    return {"mapped": mapped, "executed": executed, "terminated": child.exitcode}


def pools_fork() -> Said:
    return _pools(multiprocessing.get_context("fork"))


def pools_forkserver() -> Said:
    return _pools(multiprocessing.get_context("forkserver"))


def pools_spawn() -> Said:
    return _pools(multiprocessing.get_context("spawn"))


def own_app() -> Said:
    """The child runs an App of its own, and a signal stops that."""
    read, write = os.pipe()

    def run() -> int:
        own = make(lambda: os.write(write, b"."))
        own.run()
        return 7

    pid = fork_child(run)
    os.read(read, 1)
    os.kill(pid, signal.SIGTERM)
    return {"status": wait_exit(pid)}


SCENES: dict[str, Callable[[], Said]] = {
    scene.__name__: scene
    for scene in (
        fork, grandchild, process, preexec, executed, signals, many, early, pools_fork, pools_forkserver,
        pools_spawn, own_app,
    )
}  # fmt: skip


def make(running: Callable[[], object]) -> grete.App:
    """An App without a broker."""
    app = grete.App("parent", kafka=_NOWHERE, probes="127.0.0.1:0", shutdown_timeout="5s")
    app.consumer("orders")(lambda messages: None)
    app.monitor.subscribe("app.running", lambda event: running())
    return app


def run(scene: Callable[[], Said]) -> Said:
    """`App.run` in the main thread, the scene in another; then `App.stop`."""
    said: Said = {}
    worker = threading.Thread(target=lambda: work())

    def work() -> None:
        try:
            said["scene"] = scene()
            # It comes through the same socket, after what may have come from a child, and is heard by an App that runs.
            os.kill(os.getpid(), signal.SIGTSTP)
            eventually(lambda: heard, 20, "the signal to the App itself")
        except BaseException as error:
            said["error"] = repr(error)
        finally:
            app.stop()

    app = make(worker.start)
    heard = _heard(app)
    app.run()
    worker.join()
    return {**said, "heard": heard}


def _heard(app: grete.App) -> list[str]:
    """What signals have brought about."""
    heard: list[str] = []
    for name in ("app.stopping", "app.quiet", "app.stop_expedited"):
        app.monitor.subscribe(name, lambda event: heard.append(event.name))
    return heard


def stopping(scene: Callable[[], Said]) -> Said:
    """The scene while a stop is under way that a signal has begun, in the main thread."""
    said: Said = {}
    app = make(lambda: os.kill(os.getpid(), signal.SIGTERM))
    app.monitor.subscribe("app.stopped", lambda event: said.update(scene=scene()))
    app.run()
    return {**said, "heard": []}


def embedded(scene: Callable[[], Said]) -> Said:
    """`App.start`, and a producer, in a process with a handler of its own, and with a signal blocked."""
    signal.signal(signal.SIGTERM, _handle)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    _, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    before = {**inherited_state(), "wakeup": write}
    signal.set_wakeup_fd(write)
    app = make(lambda: None)
    with app.running(), grete.client.Producer(_NOWHERE):
        during = actions()
        said = scene()
    return {"scene": said, "before": before, "during": during, "heard": []}


def _handle(_signum: int, _frame: object) -> None:
    """The user's."""


def interrupted(scene: Callable[[], Said]) -> Said:
    """As `grete produce` and `grete dlq replay` handle Ctrl-C."""
    with Interrupt():
        return {"scene": scene(), "heard": []}


WAYS = {way.__name__: way for way in (run, stopping, embedded, interrupted)}


def main() -> None:
    """Plays it."""
    before = inherited_state()
    scene, way = sys.argv[1:]
    print(json.dumps({"before": before} | WAYS[way](SCENES[scene])))


if __name__ == "__main__":
    main()
