"""One node as the supervisor has it: its process and its pipe."""

import contextlib
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import NoReturn

from grete.swarm.pidfd import Pidfd
from grete.swarm.report import Reader, Report, ReportError

# A pipe holds 64 KiB. Who writes faster than we read gets no more of our time than this at once.
_READ = 65_536
_READS = 4


class Node:
    """Forks, reads, signals and reaps. What for, the Manager knows. At most one process at a time."""

    def __init__(self, number: int, *, plain: bool) -> None:
        """`plain`: without pidfds."""
        self.id = number
        self.pid: int | None = None
        self.pipe: int | None = None
        self._plain = plain
        self._pidfd: Pidfd | None = None
        self._reader = Reader()
        self._listens = False

    @property
    def pidfd(self) -> int | None:
        """Readable when the process has ended. None without a process, and in the fallback."""
        return self._pidfd.fd if self._pidfd is not None else None

    def listens(self) -> bool:
        """Whether what comes through the pipe is read. Once it was nonsense, or its end, nothing is."""
        return self._listens

    def fds(self) -> Iterator[int]:
        """What is open for this node."""
        for fd in (self.pipe, self.pidfd):
            if fd is not None:
                yield fd

    def fork(self, live: Callable[[int], NoReturn]) -> int:
        """Starts the process; returns its pid. In the child it calls `live` with the write end of the pipe.

        OSError: there are no processes or descriptors left, and nothing has been started.
        """
        if self._pidfd is not None:
            raise AssertionError(f"node {self.id} runs as {self.pid}")
        self.pipe, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._reader = Reader()
        self._listens = True
        try:
            pid = _fork(lambda: live(write))
            try:
                self._pidfd = Pidfd(pid, plain=self._plain)
            except OSError:
                # Not reaped, so it is still ours.
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise
        except BaseException:
            self._close_pipe()
            raise
        finally:
            os.close(write)
        self.pid = pid
        return pid

    def drain(self) -> Iterator[Report]:
        """The reports that have come; `listens` no longer when no more can come. Raises ReportError.

        A process that writes as fast as this reads does not hold it up.
        """
        for _ in range(_READS):
            if self.pipe is None or not self._listens:
                return
            try:
                piece = os.read(self.pipe, _READ)
            except BlockingIOError:
                return
            if not piece:
                self._listens = False
                return
            try:
                yield from self._reader.feed(piece)
            except ReportError:
                self._listens = False
                raise

    def signal(self, signum: int) -> bool:
        """False: there is no such process any more, and nobody got it."""
        return self._pidfd is not None and self._pidfd.signal(signum)

    def alive(self) -> bool:
        """Whether the process runs. False without one, too."""
        return self._pidfd is not None and self._pidfd.alive

    def reap(self) -> int | None:
        """None while it runs. Else how it ended (exit code, or -signal): it is reaped, and all is closed."""
        if self._pidfd is None:
            return None
        status = self._pidfd.cleanup()
        if status is not None:
            self._pidfd = self.pid = None
            self._close_pipe()
        return status

    def _close_pipe(self) -> None:
        # Not before the process has ended: it takes that for our end, and ends itself at once.
        self._listens = False
        pipe, self.pipe = self.pipe, None
        if pipe is not None:
            os.close(pipe)


def _fork(live: Callable[[], NoReturn]) -> int:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a closed pipe is not what a fork fails of
            stream.flush()
    # A collection writes to each object, and each page that is written to is no longer shared.
    collecting = gc.isenabled()
    gc.disable()
    # The child has our handlers and our wake-up fd until it has reset them. A TERM in between would run our handler
    # there, and be forgotten. Blocked, it waits in the child: pending signals are not inherited, so what waits there
    # was meant for it. What comes to us meanwhile waits here, until the mask is back.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # Python's own about threads. Whoever starts a swarm has been told of each of these, by name.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                if collecting:
                    gc.enable()
                live()
            finally:
                os._exit(1)  # `live` does not come back
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if collecting:
            gc.enable()
    return pid
