"""Signals as bytes in a pipe, so that one wait serves them and everything else."""

import faulthandler
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from grete import _core


def _noted(_signum: int, _frame: FrameType | None) -> None:
    """Nothing to do: CPython has written the signal's number to the wake-up fd."""


class Signals:
    """While entered: SIGINT and SIGTERM make `fd` readable instead of interrupting whatever runs.

    A native thread sees them first: from the first one on, the process has `timeout` seconds, even if the GIL is never
    given back. Outside of the main thread, where Python handles no signals, this is a plain wake-up.
    """

    STOP = (signal.SIGINT, signal.SIGTERM)
    # `kill -TTIN <pid>` dumps all stacks, and so does the end of the time: faulthandler's handler is in C, without GIL.
    DUMP = signal.SIGTTIN

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.dump = 0
        self._before: dict[int, Any] = {}
        self._wakeup_before: int | None = None
        self._watch: _core.SignalWatch | None = None

    def __enter__(self) -> Self:
        self.dump = self.DUMP if self._register_dump() else 0
        self._watch = _core.SignalWatch(self._timeout, self.STOP, self.dump)
        if threading.current_thread() is threading.main_thread():
            self._wakeup_before = signal.set_wakeup_fd(self._watch.wakeup_fd(), warn_on_full_buffer=False)
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
        if self.dump:
            faulthandler.unregister(self.DUMP)
        self._watch = None

    @property
    def fd(self) -> int:
        """Readable after a signal or `wake`."""
        return self._entered().wait_fd()

    def wake(self) -> None:
        """Makes `fd` readable, from any thread; does nothing when nobody waits."""
        watch = self._watch
        if watch is not None:
            watch.wake()

    def read(self) -> list[int]:
        """The signals since the last call, in order."""
        return self._entered().take()

    def _register_dump(self) -> bool:
        """Whether the signal now dumps stacks; it does not without a stderr."""
        try:
            faulthandler.register(self.DUMP, file=stderr(), all_threads=True, chain=False)
        except (OSError, ValueError, RuntimeError):
            return False
        return True

    def _entered(self) -> _core.SignalWatch:
        if self._watch is None:
            raise RuntimeError("signals are watched only inside of `with`")
        return self._watch


def stderr() -> int:
    """The descriptor of stderr; Python's object for it may be gone or be something else."""
    try:
        return sys.__stderr__.fileno() if sys.__stderr__ is not None else 2
    except (OSError, ValueError):
        return 2
