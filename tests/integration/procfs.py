"""What Linux says of processes, their own or others'."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def processes() -> dict[int, tuple[int, str]]:
    """{pid: (its parent, its state)} of everything that runs, or is a zombie."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold anything.
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(entry.parent.name)] = int(parent), state
    return found


def environment(pid: int) -> bytes:
    """As the process was started; nothing of one that has gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def resident(pid: int) -> int:
    """Bytes that the process has in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def descriptors(pid: int) -> dict[int, str]:
    """{number: what it is open on}, as the kernel names it: a path, "pipe:[7]", "anon_inode:[eventpoll]"."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[int(entry.name)] = str(entry.readlink())
    return found
