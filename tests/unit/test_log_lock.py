"""Forks while threads write log lines."""

import io
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grete.instrumentation._logging import log_lock as module
from grete.instrumentation._logging.log_lock import LogLock
from grete.instrumentation.emit import log_and_emit
from tests.kafka import eventually

logger = logging.getLogger("grete")
# What a test wants to happen when a fork has begun: hooks cannot be taken back, and the last one comes first.
at_forks: list[Callable[[], object]] = []
os.register_at_fork(before=lambda: [hook() for hook in at_forks])


class Pipe(io.RawIOBase):
    """Is read from `go` on."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = threading.Event()
        self.go = threading.Event()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.taken.set()
        self.go.wait()
        return len(data)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Where Grete's log goes to: a stream like a FileHandler's."""
    raw = Pipe()
    handler = logging.StreamHandler(io.TextIOWrapper(io.BufferedWriter(raw)))
    logger.addHandler(handler)
    yield raw
    raw.go.set()
    logger.removeHandler(handler)
    at_forks.clear()


def say(text: str) -> None:
    log_and_emit(None, logger, logging.ERROR, "app.stopped", text)


def child_of(run: Callable[[], object]) -> int:
    """The status of a forked child that runs this; one that hangs is killed."""
    child = os.fork()
    if child == 0:
        try:
            run()
        finally:
            os._exit(0)
    statuses: list[int] = []

    def ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            statuses.append(os.waitstatus_to_exitcode(status))
        return bool(pid)

    try:
        eventually(ended, 10.0, "the end of the child")
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return statuses[0]


def test_a_fork_waits_for_the_line_that_another_thread_writes(pipe: Pipe) -> None:
    writer = threading.Thread(target=say, args=("in the parent",))
    writer.start()
    pipe.taken.wait()
    # The writer is below the stream's lock, and goes on when the fork has begun. Without the waiting it would come to
    # that after the fork, for the thread that forks has the GIL.
    at_forks.append(pipe.go.set)
    assert child_of(lambda: say("in the child")) == 0
    writer.join()


def test_who_comes_to_write_during_a_fork_waits_for_its_end() -> None:
    lines, written = LogLock(), threading.Event()

    def write() -> None:
        with lines:
            written.set()

    lines.before_fork()
    writer = threading.Thread(target=write)
    writer.start()
    assert not written.wait(0.05)
    lines.after_fork_in_parent()
    writer.join()
    assert written.is_set()


def test_a_handler_may_write_lines_and_fork() -> None:
    lines = LogLock()
    with lines, lines:
        lines.before_fork()  # returns, although it writes: it is the one that forks
        lines.after_fork_in_child()
        with lines:
            pass
    lines.before_fork()
    lines.after_fork_in_parent()


def test_no_thread_waits_forever(monkeypatch: pytest.MonkeyPatch, pipe: Pipe) -> None:
    monkeypatch.setattr(module, "MAX_WAIT", 0.01)
    stuck = threading.Thread(target=say, args=("not read",))
    stuck.start()
    pipe.taken.wait()
    assert child_of(lambda: None) == 0
    lines = LogLock()
    lines.before_fork()
    with lines:  # the fork hangs, say in another library's hook
        pass
    lines.after_fork_in_parent()
    pipe.go.set()
    stuck.join()
