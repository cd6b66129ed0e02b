"""What a process has of its parent, as the process itself sees it; children that say so."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kafka.waiting import eventually

Said = dict[str, Any]

# Those that a running App handles.
PLACED = (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN)
MASKS = ("SigBlk", "SigIgn", "SigCgt")
# glibc's own, for threads.
_INTERNAL = 1 << 31 | 1 << 32


def actions() -> Said:
    """What signals do in this process, as Python and as the kernel see it; what its thread blocks."""
    python = {signal.Signals(number).name: _name(signal.getsignal(number)) for number in (*PLACED, signal.SIGHUP)}
    lines = Path("/proc/self/status").read_text().splitlines()
    kernel = {name: int(value, 16) for name, _, value in (line.partition(":") for line in lines) if name in MASKS}
    return {**python, **kernel, "SigCgt": kernel["SigCgt"] & ~_INTERNAL}


def _name(handler: Any) -> str:
    return handler.name if isinstance(handler, signal.Handlers) else getattr(handler, "__name__", repr(handler))


def descriptors() -> dict[str, str]:
    """What is open, by number."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            found[link.name] = str(link.readlink())
        except OSError:
            continue  # the one that listed them
    return found


def inherited_state() -> Said:
    """What a child has of its parent."""
    return {"actions": actions(), "wakeup": signal.set_wakeup_fd(-1), "open": descriptors()}


def fork_child(body: Callable[[], object]) -> int:
    """The pid of a child that does this; what it returns is its status, an exception is 99."""
    pid = os.fork()
    if pid == 0:
        status: object = 99
        try:
            status = body()
        finally:
            os._exit(status if isinstance(status, int) else 0)
    return pid


def wait_exit(pid: int, seconds: float = 20.0) -> int:
    """How: exit code, or -signal. One that is stopped is -1000 - signal, and killed."""
    found: list[int] = []

    def waited() -> bool:
        which, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        found.append(status)
        return which == pid

    try:
        eventually(waited, seconds, f"the end of child {pid}")
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    if os.WIFSTOPPED(found[-1]):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return -1000 - os.WSTOPSIG(found[-1])
    return os.waitstatus_to_exitcode(found[-1])
