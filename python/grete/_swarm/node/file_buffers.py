"""Flushes Python's file buffers around a fork, so that each byte is written once, by the process that buffered it."""

import contextlib
import gc
import weakref

# Not the classes of these names in `io`: those are ABCs, and isinstance with them is slow for a million objects.
from _io import _BufferedIOBase, _TextIOBase
from collections.abc import Iterable
from typing import Any

# Files from before the fork. A node cannot find them itself, because gc.get_objects() omits frozen objects.
_open_before_fork: "weakref.WeakSet[Any]" = weakref.WeakSet()


def flush_before_fork() -> None:
    """Flushes all files that are open for writing. Otherwise each node would write the buffered bytes, too."""
    found = _writable_files(gc.get_objects())
    _flush(found)
    _open_before_fork.clear()
    _open_before_fork.update(found)


def flush_at_exit() -> None:
    """Flushes what a node has left in buffers. The interpreter would do so when it finalizes all objects, which a node
    skips.
    """
    _flush([*_open_before_fork, *_writable_files(gc.get_objects())])


def _writable_files(objects: Iterable[object]) -> list[Any]:
    found: list[Any] = []
    for one in objects:
        # By the exact type: isinstance() would call proxies and mocks, which may do anything.
        if issubclass(type(one), (_TextIOBase, _BufferedIOBase)):
            file: Any = one
            with contextlib.suppress(Exception):
                if not file.closed and file.writable():
                    found.append(file)
    return found


def _flush(files: Iterable[Any]) -> None:
    # Text files first: their buffers are flushed into the binary buffer below.
    for file in sorted(files, key=lambda one: not isinstance(one, _TextIOBase)):
        # A full disk, or a pipe without a reader: Python itself ignores such errors at its end.
        with contextlib.suppress(Exception):
            file.flush()
