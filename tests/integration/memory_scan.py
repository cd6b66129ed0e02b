"""Searches the memory of a child process for a secret: also memory that was given back to the allocator.

The parent searches, so that the child never has what is searched for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (....) [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ [0-9]+ *(.*)")
_CHUNK = 8 << 20


def occurrences(pid: int, needle: bytes) -> list[str]:
    """Return where the private, readable memory of a process has `needle`: mapping, and the bytes around it."""
    found = []
    process = Path("/proc") / str(pid)
    lines = (process / "maps").read_text().splitlines()
    with (process / "mem").open("rb", buffering=0) as memory:
        for start, end, name in _mappings(lines):
            for at, chunk in _chunks(memory.fileno(), start, end, len(needle)):
                position = chunk.find(needle)
                while position >= 0:
                    around = chunk[max(0, position - 32) : position + len(needle) + 32].replace(needle, b"<SECRET>")
                    found.append(f"{name or 'anonymous'} at {at + position:#x}: {around!r}")
                    position = chunk.find(needle, position + 1)
    return found


def _mappings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    for line in lines:
        match = _MAPPING.match(line)
        if match is None:
            continue
        start, end, mode, name = match.groups()
        if mode[0] == "r" and mode[3] == "p" and name not in ("[vvar]", "[vsyscall]"):
            yield int(start, 16), int(end, 16), name


def _chunks(descriptor: int, start: int, end: int, overlap: int) -> Iterator[tuple[int, bytes]]:
    at = start
    while at < end:
        try:
            chunk = os.pread(descriptor, min(_CHUNK + overlap, end - at), at)
        except OSError:  # a page that is gone, or a device
            return
        yield at, chunk
        at += _CHUNK
