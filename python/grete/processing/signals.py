"""Signals as bytes in a pipe, read by a thread that needs no GIL."""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from grete import _core
from grete.swarm.logs import line_prefix


def _noted(_signum: int, _frame: FrameType | None) -> None:
    """Nothing to do: CPython has written the signal's number to the wake-up fd."""


# The C-level handler of this one dumps all stacks without the GIL, for when nobody gets it. Nothing else sends it.
_WITHOUT_GIL = getattr(signal, "SIGRTMAX", signal.SIGTTOU)


class Signals:
    """While entered: SIGINT and SIGTERM begin `stop`, SIGTSTP quiets, SIGTTIN dumps all stacks.

    A native thread sees the signals first: the stop begins and has its deadline even if the GIL is never given back.
    The process ends with the deadline. Outside of the main thread, where Python handles no signals, only that is so.
    """

    STOP = (signal.SIGINT, signal.SIGTERM)
    QUIET = signal.SIGTSTP
    DUMP = signal.SIGTTIN

    def __init__(self, stop: _core.Stop) -> None:
        self._stop = stop
        self._before: dict[int, Any] = {}
        self._wakeup_before: int | None = None
        self._watch: _core.SignalWatch | None = None

    def __enter__(self) -> Self:
        exit_at_the_end(self._stop)
        if threading.current_thread() is threading.main_thread():
            self._watch = _core.SignalWatch(self._stop, self.STOP, self.QUIET, self.DUMP)
            self._wakeup_before = signal.set_wakeup_fd(self._watch.wakeup_fd(), warn_on_full_buffer=False)
            for signum in (*self.STOP, self.QUIET, self.DUMP):
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
        faulthandler.unregister(_WITHOUT_GIL)
        self._watch = None


def exit_at_the_end(stop: _core.Stop) -> None:
    """The process ends with the time of the stop, and dumps all stacks before, if it has a stderr."""
    try:
        faulthandler.register(_WITHOUT_GIL, file=stderr(), all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError):
        stop.exit_at_the_end(0)
    else:
        stop.exit_at_the_end(_WITHOUT_GIL)


def dump_stacks() -> None:
    """The stacks of all threads, to stderr. With the GIL, so that no frame vanishes while it is read.

    The processes of a swarm share one stderr, and are asked all at once: each line says whose it is.
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        prefix = line_prefix()
        if not prefix:
            faulthandler.dump_traceback(file=stderr(), all_threads=True)
            return
        memory = os.memfd_create("stacks")
        try:
            faulthandler.dump_traceback(file=memory, all_threads=True)
            text = os.pread(memory, os.fstat(memory).st_size, 0)
        finally:
            os.close(memory)
        # Whole lines of one write: they mix with those of others at their ends only, if at all.
        os.write(stderr(), b"".join(prefix.encode() + line for line in text.splitlines(keepends=True)))


def stderr() -> int:
    """The descriptor of stderr; Python's object for it may be gone or be something else."""
    try:
        return sys.__stderr__.fileno() if sys.__stderr__ is not None else 2
    except (OSError, ValueError):
        return 2
