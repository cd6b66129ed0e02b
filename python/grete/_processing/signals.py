"""Signals as bytes in a pipe (self-pipe) that a thread without need of the GIL reads."""

import faulthandler
import signal
import threading
from types import TracebackType
from typing import Self

from grete import _native
from grete._process import forks
from grete._process.stacks import stderr

# Its C-level handler dumps all stacks without the GIL, when no thread can get the GIL. Only Grete sends this signal.
_STACK_DUMP_SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGTTOU)


class Signals:
    """Context manager: SIGINT and SIGTERM begin `stop`, SIGTSTP quiets, SIGTTIN dumps all stacks.

    A native thread reads the signals first, so the stop and its deadline begin even if the GIL is never released. At
    the deadline, the process exits. Outside of the main thread, where Python handles no signals, only the deadline
    applies.
    """

    STOP = (signal.SIGINT, signal.SIGTERM)
    QUIET = signal.SIGTSTP
    DUMP = signal.SIGTTIN

    def __init__(self, stop: _native.Shutdown) -> None:
        self._stop = stop
        self._handlers = forks.Handlers()
        self._watch: _native.SignalWatch | None = None

    def __enter__(self) -> Self:
        forks.register(self)
        exit_on_deadline(self._stop)
        if threading.current_thread() is threading.main_thread():
            self._watch = _native.SignalWatch(self._stop, self.STOP, self.QUIET, self.DUMP)
            # Even if a shell has set SIGINT to be ignored, as for background jobs of a script: a SIGINT that arrives is
            # sent on purpose.
            handled = (*self.STOP, self.QUIET, self.DUMP)
            self._handlers.install(handled, forks.ignore, wakeup=self._watch.wakeup_fd())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._handlers.remove()
        faulthandler.unregister(_STACK_DUMP_SIGNAL)
        self._watch = None
        forks.unregister(self)

    def leave_to_parent(self) -> None:
        """Unregisters the stack dump in a forked child, which has no stop with a deadline."""
        faulthandler.unregister(_STACK_DUMP_SIGNAL)


def exit_on_deadline(stop: _native.Shutdown) -> None:
    """Makes the process exit at the deadline of the stop, after a dump of all stacks if it has a stderr."""
    try:
        faulthandler.register(_STACK_DUMP_SIGNAL, file=stderr(), all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError):
        stop.exit_at_deadline(0)
    else:
        stop.exit_at_deadline(_STACK_DUMP_SIGNAL)
