"""Faults that a handler injects into its own process, requested through a file: for nodes of a swarm.

`obey(node)` looks for `SEEN_DIRECTORY/faults/node-N`, takes it (one thread gets it), says so in the log, and does it.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tests.integration.apps import app_log
from tests.integration.procfs import descriptors

# What `leak` takes, at least; above any --max-rss of a test.
LEAK = int(os.environ.get("HARM_LEAK_MIB", "400")) << 20
# How long `slow` works: longer than any handler_timeout of a test.
SLOW = float(os.environ.get("HARM_SLOW", "6"))
EXIT_STATUS = 7
_leaked: list[bytearray] = []


def obey(node: int | None) -> None:
    """Does what the file of this node says, once; nothing if there is none."""
    directory = Path(os.environ["SEEN_DIRECTORY"]) / "faults"
    order = directory / f"node-{node}"
    taken = directory / f"taken-{node}-{os.getpid()}-{time.monotonic_ns()}"
    try:
        order.rename(taken)
    except FileNotFoundError:
        return
    kind = taken.read_text()
    app_log.write("harm", kind=kind, node=node)
    KINDS[kind]()


def segv() -> None:
    """A real one: reads address 0."""
    ctypes.string_at(0)


def leave() -> NoReturn:
    os._exit(EXIT_STATUS)


def gil() -> None:
    """A C function that keeps the GIL: PyDLL does not give it away for the length of the call."""
    while True:
        ctypes.PyDLL(None).sleep(600)


def regex() -> None:
    """A pattern that takes years, in C, with the GIL."""
    re.match("(a+)+$", "a" * 64 + "b")


def leak() -> None:
    """Takes memory, touches it, and goes on working."""
    while sum(map(len, _leaked)) < LEAK:
        _leaked.append(bytearray(b"\1" * (16 << 20)))


def hang() -> NoReturn:
    """Blocks forever, and releases the GIL."""
    while True:
        time.sleep(600)


def slow() -> None:
    """Too long, but it does come back."""
    time.sleep(SLOW)


def deaf() -> NoReturn:
    """Ignores SIGTERM for good, whatever Python has set, and never returns."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(int(signal.SIGTERM), 1)  # SIG_IGN
    hang()


def close() -> None:
    """Closes the pipe through which the node reports, all of it."""
    for number in report_pipes():
        os.close(number)


def garbage() -> None:
    """Writes nonsense into that pipe, between two reports."""
    os.write(report_pipes()[0], b"\xff\xfe nonsense \x00" * 8)


def half() -> None:
    """A frame whose end never comes: the next report is taken for it."""
    os.write(report_pipes()[0], (100).to_bytes(4, "big") + b'{"v":1')


def child() -> NoReturn:
    """Leaves a forked process behind, which holds all that the node had open, and ends."""
    if os.fork() == 0:
        time.sleep(8)
        os._exit(0)
    os._exit(EXIT_STATUS)


def report_pipes() -> list[int]:
    """All write ends of the pipe that the supervisor has the read end of."""
    theirs = set(descriptors(os.getppid()).values())
    found = [
        number
        for number, target in descriptors(os.getpid()).items()
        if number > 2 and target in theirs and target.startswith("pipe:")
    ]
    assert found, "no pipe to the supervisor"
    return found


KINDS: dict[str, Callable[[], None]] = {
    "segv": segv,
    "exit": leave,
    "gil": gil,
    "regex": regex,
    "leak": leak,
    "hang": hang,
    "slow": slow,
    "deaf": deaf,
    "close": close,
    "garbage": garbage,
    "half": half,
    "child": child,
}
