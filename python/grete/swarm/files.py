"""Files that Python writes to through buffers of its own: what lies there is written once, by the process it is of."""

import contextlib
import gc
import weakref

# Not io's classes of these names: those are abstract ones, which are slow to ask for a million objects.
from _io import _BufferedIOBase, _TextIOBase
from collections.abc import Iterable
from typing import Any

# Those that were there before the fork. A node cannot find them itself: frozen objects are on no list.
_before: "weakref.WeakSet[Any]" = weakref.WeakSet()


def flush_before_fork() -> None:
    """Empties the buffers of all files that are open for writing, or each node would write what lies in them, too."""
    found = _writable(gc.get_objects())
    _flush(found)
    _before.clear()
    _before.update(found)


def flush_at_the_end() -> None:
    """Writes what a node has left in buffers: the interpreter does so when it takes down all objects, and a node does
    not do that.
    """
    _flush([*_before, *_writable(gc.get_objects())])


def _writable(objects: Iterable[object]) -> list[Any]:
    found: list[Any] = []
    for one in objects:
        # By its type: isinstance() would ask proxies and mocks, which may do anything.
        if issubclass(type(one), (_TextIOBase, _BufferedIOBase)):
            file: Any = one
            with contextlib.suppress(Exception):
                if not file.closed and file.writable():
                    found.append(file)
    return found


def _flush(files: Iterable[Any]) -> None:
    # Text goes into the buffer of bytes below it.
    for file in sorted(files, key=lambda one: not isinstance(one, _TextIOBase)):
        # A full disk, a pipe that nobody reads from: Python itself ignores that at its end.
        with contextlib.suppress(Exception):
            file.flush()
