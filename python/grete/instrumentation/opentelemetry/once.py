"""What each process does once."""

import os
import threading
from collections.abc import Callable


class Once:
    """Calls a function the first time it is called in a process; whoever comes meanwhile waits for that.

    One that raises is not called again: there would be no end of it.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._done: int | None = None
        # One for each process: a fork may find the parent's held, by a thread that is not in the child.
        self._locks: dict[int, threading.Lock] = {}

    def __call__(self) -> None:
        """Raises what the function raises."""
        pid = os.getpid()
        if self._done == pid:
            return
        with self._locks.setdefault(pid, threading.Lock()):
            if self._done != pid:
                try:
                    self._function()
                finally:
                    self._done = pid
