"""Use of a process's memory, by its mappings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# "55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0    [heap]"
_HEAD = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s*(.*)$")
_COUNTED = {b"Rss": "rss", b"Pss": "pss", b"Private_Clean": "private", b"Private_Dirty": "private"}
_STACK = range(7 << 20, (8 << 20) + 1)
_ARENA = 1 << 20


@dataclass(frozen=True)
class Mapping:
    """One line of /proc/PID/maps, with what of it is resident, in bytes."""

    start: int
    size: int
    mode: str
    name: str
    rss: int
    pss: int
    private: int

    @property
    def kind(self) -> str:
        """Use of the mapping, as far as it shows from outside."""
        if self.name.startswith("["):
            return {"[heap]": "malloc's heap", "[stack]": "stacks"}.get(self.name, "kernel's")
        if self.name:
            return "libraries, written to" if "w" in self.mode else "libraries"
        if self.start % (64 << 20) == 0:
            return "malloc's arenas of threads"
        if self.start % _ARENA == 0 or self.size % _ARENA == 0:
            return "stacks" if self.size in _STACK else "Python's arenas"
        return "stacks" if self.size in _STACK else "large blocks"


def parsed(lines: Iterable[bytes]) -> list[Mapping]:
    """The mappings of a smaps file."""
    found: list[Mapping] = []
    head: tuple[int, int, str, str] | None = None
    sums: Counter[str] = Counter()
    for line in lines:
        if match := _HEAD.match(line):
            found += _close(head, sums)
            start, end = int(match[1], 16), int(match[2], 16)
            head, sums = (start, end - start, match[3].decode(), match[4].decode(errors="replace")), Counter()
        else:
            name, _, value = line.partition(b":")
            if name in _COUNTED:
                sums[_COUNTED[name]] += 1024 * int(value.split()[0])
    return [*found, *_close(head, sums)]


def _close(head: tuple[int, int, str, str] | None, sums: Counter[str]) -> list[Mapping]:
    return [] if head is None else [Mapping(*head, sums["rss"], sums["pss"], sums["private"])]


def private(pid: int) -> Counter[str]:
    """Private bytes of a living process by kind."""
    kinds: Counter[str] = Counter()
    for mapping in parsed(Path(f"/proc/{pid}/smaps").read_bytes().splitlines()):
        kinds[mapping.kind] += mapping.private
    return kinds
