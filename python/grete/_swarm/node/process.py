"""Supervisor's side of one node: its process and its pipe."""

import contextlib
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import NoReturn

from grete._process import forks
from grete._swarm.node.pidfd import Pidfd
from grete._swarm.node.report import LastError, Report, ReportError, ReportReader

# A pipe holds 64 KiB. A node that writes faster than the supervisor reads gets no more than this per turn.
_READ_SIZE = 65_536
_MAX_READS = 4


class NodeProcess:
    """Forks, reads, signals and reaps. Decisions are the Manager's. At most one process at a time."""

    def __init__(self, number: int, *, no_pidfd: bool) -> None:
        """`no_pidfd`: True forces the fallback without pidfds."""
        self.id = number
        self.pid: int | None = None
        self.pipe: int | None = None
        self._no_pidfd = no_pidfd
        self._pidfd: Pidfd | None = None
        self._reader = ReportReader()
        self._readable = False

    @property
    def pidfd(self) -> int | None:
        """Descriptor that is readable when the process has ended. None: no process, or the fallback."""
        return self._pidfd.fd if self._pidfd is not None else None

    def is_readable(self) -> bool:
        """Returns whether the pipe is still read: not after invalid data, and not after its end."""
        return self._readable

    def fds(self) -> Iterator[int]:
        """Yields the descriptors that are open for this node."""
        for fd in (self.pipe, self.pidfd):
            if fd is not None:
                yield fd

    def fork(self, run_child: Callable[[int], NoReturn]) -> int:
        """Forks the process; returns its pid. The child calls `run_child` with the write end of the pipe.

        Raises OSError without processes or descriptors left; then no process has been started.
        """
        if self._pidfd is not None:
            raise AssertionError(f"node {self.id} runs as {self.pid}")
        self.pipe, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._reader = ReportReader()
        self._readable = True
        try:
            pid = _fork_process(lambda: run_child(write))
            try:
                self._pidfd = Pidfd(pid, no_pidfd=self._no_pidfd)
            except OSError:
                # Not reaped yet, so the pid is still that of this child.
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

    def read_reports(self) -> Iterator[Report | LastError]:
        """Yields the reports that have arrived, and the error that ends the process. `is_readable` is False once no
        more can arrive. Raises ReportError.

        Reads a limited amount, so that a process that writes all the time does not block the supervisor.
        """
        for _ in range(_MAX_READS):
            if self.pipe is None or not self._readable:
                return
            try:
                piece = os.read(self.pipe, _READ_SIZE)
            except BlockingIOError:
                return
            if not piece:
                self._readable = False
                return
            try:
                yield from self._reader.feed(piece)
            except ReportError:
                self._readable = False
                raise

    def signal(self, signum: int) -> bool:
        """Sends a signal. Returns False if the process has ended, and the signal was not sent."""
        return self._pidfd is not None and self._pidfd.signal(signum)

    def is_alive(self) -> bool:
        """Returns whether the process runs; False without a process."""
        return self._pidfd is not None and self._pidfd.alive

    def reap(self) -> int | None:
        """Reaps the process if it has ended, and closes its descriptors. Returns its exit code, or -signal; None: it
        runs.
        """
        if self._pidfd is None:
            return None
        status = self._pidfd.reap()
        if status is not None:
            self._pidfd = self.pid = None
            self._close_pipe()
        return status

    def _close_pipe(self) -> None:
        # Only after the process has ended: it takes a closed pipe for the supervisor's death, and would exit at once.
        self._readable = False
        pipe, self.pipe = self.pipe, None
        if pipe is not None:
            os.close(pipe)


def _fork_process(run_child: Callable[[], NoReturn]) -> int:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a closed pipe is no reason for a fork to fail
            stream.flush()
    # A collection writes to each object, and a page that is written to is not shared any more.
    collecting = gc.isenabled()
    gc.disable()
    # Until the child has reset them, it has the supervisor's handlers and wake-up fd. A TERM in between would run the
    # supervisor's handler in the child, and be lost. Blocked, the TERM waits in the child: pending signals are not
    # inherited, so a signal that waits there was sent to the child. Signals to the supervisor wait until the mask is
    # reset.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings(), forks.inherit_all():
            # Python's own warning about threads. `fork_safety` has already named each thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                if collecting:
                    gc.enable()
                run_child()
            finally:
                os._exit(1)  # `run_child` does not return
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if collecting:
            gc.enable()
    return pid
