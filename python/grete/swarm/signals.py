"""Signals of the supervisor as bytes in a pipe that its epoll watches."""

import contextlib
import os
import signal
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, Self


def _noted(_signum: int, _frame: FrameType | None) -> None:
    """Nothing to do: CPython has written the signal's number to the wake-up fd."""


class SignalPipe:
    """While entered: each of the signals is a byte at `fd`. Main thread only.

    Nothing is lost between two waits: what arrives while no one waits lies in the pipe, and the next wait returns at
    once.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        self.fd, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._signals = list(signals)
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def fds(self) -> tuple[int, int]:
        """Both ends."""
        return self.fd, self._write

    def take(self) -> list[int]:
        """What has come, in order."""
        numbers = bytearray()
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.fd, 4096):
                numbers += piece
        return list(numbers)

    def __enter__(self) -> Self:
        # The fd before the handlers: each signal that one of them takes has its byte.
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for signum in self._signals:
            # Even where a shell has set SIGINT to be ignored, as it does for background jobs of a script.
            self._before[signum] = signal.signal(signum, _noted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup_before)
        for fd in self.fds():
            os.close(fd)
