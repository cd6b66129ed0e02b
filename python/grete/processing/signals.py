"""Signals as bytes in a pipe, so that one wait serves them and everything else."""

import contextlib
import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any, Self


def _noted(_signum: int, _frame: FrameType | None) -> None:
    """Nothing to do: CPython has written the signal's number to the wake-up fd."""


class Signals:
    """While entered: SIGINT and SIGTERM make `fd` readable instead of interrupting whatever runs.

    Outside of the main thread, where Python handles no signals, it is a plain wake-up.
    """

    STOP = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._wakeup_before: int | None = None

    def __enter__(self) -> Self:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        if threading.current_thread() is threading.main_thread():
            self._wakeup_before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
            for signum in self.STOP:
                # Even where a shell has set SIGINT to be ignored, as it does for background jobs of a script: who
                # sends it means it.
                self._before[signum] = signal.signal(signum, _noted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        if self._wakeup_before is not None:
            signal.set_wakeup_fd(self._wakeup_before)
        self._read.close()
        self._write.close()

    @property
    def fd(self) -> int:
        """Readable after a signal or `wake`."""
        return self._read.fileno()

    def wake(self) -> None:
        """Makes `fd` readable, from any thread."""
        with contextlib.suppress(OSError):  # full: it is readable anyway; closed: nobody waits any more
            self._write.send(b"\0")

    def read(self) -> list[int]:
        """The signals since the last call, in order."""
        try:
            return [number for number in self._read.recv(4096) if number]
        except BlockingIOError:
            return []
