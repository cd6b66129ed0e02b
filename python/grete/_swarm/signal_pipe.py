"""Signals of the supervisor as bytes in a pipe that its epoll watches (self-pipe)."""

import contextlib
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from grete._process import forks


class SignalPipe:
    """Context manager that turns each signal into a byte at `fd`. Main thread only.

    No signal is lost between two waits: its byte stays in the pipe, and the next wait returns at once.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        self.fd, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._signals = list(signals)
        self._handlers = forks.Handlers()

    def fds(self) -> tuple[int, int]:
        """Returns both ends of the pipe."""
        return self.fd, self._write

    def drain(self) -> list[int]:
        """Returns the signals that have arrived, in their order."""
        numbers = bytearray()
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.fd, 4096):
                numbers += piece
        return list(numbers)

    def __enter__(self) -> Self:
        # Even if a shell has set SIGINT to be ignored, as for background jobs of a script.
        self._handlers.install(self._signals, forks.ignore, wakeup=self._write)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._handlers.remove()
        for fd in self.fds():
            os.close(fd)
