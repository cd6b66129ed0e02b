"""Threads of this process as the kernel sees them: which of them sleep, where, and how often."""

from __future__ import annotations

from pathlib import Path

# epoll_wait, epoll_pwait and epoll_pwait2, on x86_64 and on aarch64.
EPOLL_WAITS = {"232", "281", "22", "441"}


def switches(thread: int) -> int:
    """How often a thread of ours has gone to sleep so far."""
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def network_threads(name: str) -> list[int]:
    """The native threads of open clients."""
    tasks = Path("/proc/self/task").iterdir()
    return [int(task.name) for task in tasks if (task / "comm").read_text().strip() == name]


def leads(thread: int | None) -> bool:
    """Whether the thread sleeps in a selector; one that has ended does not."""
    try:
        call = Path(f"/proc/self/task/{thread}/syscall").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return call[0] in EPOLL_WAITS
