"""Log lines and forks: no thread of ours is in the middle of a line when the process forks.

A forked child has one thread. What the others held is never given back in it: `logging` makes its own locks anew, but
the stream below a handler has one, too (`io.BufferedWriter`, so each `logging.FileHandler`), and keeps it. A child of a
process whose thread "grete-app" was just writing that a broker is away would hang with its own first line. So a fork
waits until our threads have written theirs, and who comes meanwhile waits until the fork is over.

Both wait for so long at most: a handler may be stuck (a pipe that nobody reads), or wait for something that the thread
that forks holds. Then the fork is what it would be without this.
"""

import os
import threading
from types import TracebackType

# Seconds.
LONGEST = 1.0


class Lines:
    """`with lines:` around what writes a line, from any thread, also from within."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writing = 0
        self._forks = 0
        self._mine = threading.local()

    def __enter__(self) -> None:
        depth = self._depth()
        if not depth:
            with self._changed:
                if self._forks:
                    self._changed.wait_for(lambda: not self._forks, LONGEST)
                self._writing += 1
        self._mine.depth = depth + 1

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._mine.depth = depth = self._depth() - 1
        if not depth:
            with self._changed:
                self._writing -= 1
                if self._forks:
                    self._changed.notify_all()

    def _depth(self) -> int:
        depth: int = getattr(self._mine, "depth", 0)
        return depth

    def before_fork(self) -> None:
        """In the thread that forks, which may be writing a line itself: a handler may fork."""
        with self._changed:
            self._forks += 1
            own = 1 if self._depth() else 0
            self._changed.wait_for(lambda: self._writing <= own, LONGEST)

    def in_parent(self) -> None:
        """After the fork."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def in_child(self) -> None:
        """After the fork: the others are gone, whatever they were at."""
        self._changed = threading.Condition()
        self._writing = 1 if self._depth() else 0
        self._forks = 0


lines = Lines()
os.register_at_fork(before=lines.before_fork, after_in_parent=lines.in_parent, after_in_child=lines.in_child)
