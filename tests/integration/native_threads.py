"""Threads of this process as the kernel sees them: which of them sleep, where, and how often."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

# futex, on x86_64 and on aarch64.
FUTEX = {"202", "98"}
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


def stop_at_many_moments(process: subprocess.Popen[str]) -> None:
    """Stops the process 40 times for 50 ms by SIGSTOP. The moments are what is tested: any of them will do."""
    for number in range(40):
        threading.Event().wait(0.02 + number * 0.0013)
        process.send_signal(signal.SIGSTOP)
        threading.Event().wait(0.05)
        process.send_signal(signal.SIGCONT)


def leads(thread: int | None) -> bool:
    """Whether the thread sleeps in a selector; one that has ended does not."""
    return _system_call(thread) in EPOLL_WAITS


def is_parked(thread: int | None) -> bool:
    """Whether the thread sleeps until another one wakes it."""
    return _system_call(thread) in FUTEX


def _system_call(thread: int | None) -> str:
    """The number of the system call in which the thread sleeps; "": it has ended."""
    try:
        return Path(f"/proc/self/task/{thread}/syscall").read_text().split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
