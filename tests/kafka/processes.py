"""Child processes that never outlive the one that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

PR_SET_PDEATHSIG = 1
# Looked up before any fork: between fork and exec nothing may allocate more than it must.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _before_exec(parent: int, cpus: Iterable[int] | None) -> Callable[[], None]:
    def prepare() -> None:
        if _libc is not None:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            # The parent may have died between fork and prctl; then no signal would come.
            if os.getppid() != parent:
                os._exit(127)
            if cpus is not None:
                os.sched_setaffinity(0, cpus)

    return prepare


def spawn(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    cpus: Iterable[int] | None = None,
    stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in a process group of its own, which the kernel kills when this *thread* ends.

    PR_SET_PDEATHSIG belongs to the thread that forks: call this from one that lives as long as the child should.
    """
    return subprocess.Popen(
        [os.fspath(part) for part in command],
        cwd=cwd,
        env=None if env is None else dict(env),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
        preexec_fn=_before_exec(os.getpid(), None if cpus is None else frozenset(cpus)),
    )


def kill_group(process: subprocess.Popen[bytes], sig: int = signal.SIGKILL) -> None:
    """Send `sig` to the process group that `spawn` made; quiet when it has gone."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sig)


def stands_still(pid: int) -> bool:
    """Whether SIGSTOP has reached all threads."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            # The name, in brackets, may hold anything.
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "TtZX":
                return False
    return True


def end(process: subprocess.Popen[bytes], *, timeout: float = 10.0) -> int:
    """Kill and reap; returns the exit status."""
    kill_group(process, signal.SIGKILL)
    # A stopped group gets its SIGKILL, too: the kernel wakes it for that.
    return process.wait(timeout)
