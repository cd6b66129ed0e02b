"""Lock between log lines and forks: no thread of Grete is in the middle of a log line when the process forks.

A forked child has one thread, and locks that other threads held stay locked in it. `logging` creates its own locks
anew in the child. But the stream below a handler has a lock, too (`io.BufferedWriter`, so each `logging.FileHandler`),
and that lock stays. Suppose that the thread "grete-app" was just writing that a broker is unreachable: the child would
hang with its own first line. So a fork waits until Grete's threads have written their lines, and lines that come
meanwhile wait until the fork is over.

Both waits are limited. A handler may be stuck (a pipe without a reader), or may wait for something that the forking
thread holds. After the limit, the fork happens as it would without this lock.
"""

import os
import threading
from types import TracebackType

# Limit of both waits, in seconds.
MAX_WAIT = 1.0


class LogLock:
    """Reentrant context manager around code that writes a log line: `with log_lock:`. Any number of threads may hold
    it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writers = 0
        self._forks = 0
        self._local = threading.local()

    def __enter__(self) -> None:
        depth = self._depth()
        if not depth:
            with self._changed:
                if self._forks:
                    self._changed.wait_for(lambda: not self._forks, MAX_WAIT)
                self._writers += 1
        self._local.depth = depth + 1

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._local.depth = depth = self._depth() - 1
        if not depth:
            with self._changed:
                self._writers -= 1
                if self._forks:
                    self._changed.notify_all()

    def _depth(self) -> int:
        depth: int = getattr(self._local, "depth", 0)
        return depth

    def before_fork(self) -> None:
        """Waits for the lines of other threads. The forking thread may hold the lock itself: a logging handler may
        fork.
        """
        with self._changed:
            self._forks += 1
            own_writers = 1 if self._depth() else 0
            self._changed.wait_for(lambda: self._writers <= own_writers, MAX_WAIT)

    def after_fork_in_parent(self) -> None:
        """Lets waiting lines go on."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def after_fork_in_child(self) -> None:
        """Resets the lock: the other threads do not exist in the child, whatever they held."""
        self._changed = threading.Condition()
        self._writers = 1 if self._depth() else 0
        self._forks = 0


log_lock = LogLock()
os.register_at_fork(
    before=log_lock.before_fork,
    after_in_parent=log_lock.after_fork_in_parent,
    after_in_child=log_lock.after_fork_in_child,
)
