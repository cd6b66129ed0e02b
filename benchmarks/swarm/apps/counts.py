"""Counts that another process can read while they grow: each thread has eight bytes of a file to itself."""

from __future__ import annotations

import itertools
import mmap
import os
import threading
from pathlib import Path

SLOTS = 64
_SIZE = 8 * SLOTS


class Counts(threading.local):
    """`add()` from any thread of any process. The file is made by the first of them: before a fork there is none."""

    _threads = itertools.count()
    _maps: dict[int, memoryview] = {}  # noqa: RUF012  # one for each process, by its pid

    def __init__(self, directory: Path) -> None:
        """Runs anew in each thread that comes by."""
        pid, slot = os.getpid(), next(self._threads)
        if slot >= SLOTS:
            raise RuntimeError(f"more than {SLOTS} threads count")
        if pid not in self._maps:
            self._maps[pid] = _mapped(directory / f"{pid}.count")
        self._own = self._maps[pid][slot : slot + 1]

    def add(self) -> None:
        """One more."""
        self._own[0] += 1


def _mapped(path: Path) -> memoryview:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.ftruncate(fd, _SIZE)
        return memoryview(mmap.mmap(fd, _SIZE)).cast("Q")
    finally:
        os.close(fd)


def total(directory: Path) -> int:
    """Sum of all processes that have written there."""
    files = [path.read_bytes() for path in directory.glob("*.count")]
    return sum(sum(memoryview(content).cast("Q")) for content in files if len(content) == _SIZE)
