"""Resource usage of a process, read from /proc, so that the process itself need not take part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


def _status(path: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


def peak_rss() -> int:
    """Highest resident set of this process so far, in bytes.

    VmHWM rather than ru_maxrss: the latter keeps the parent's figure across exec.
    """
    return 1024 * int(_status(Path("/proc/self/status"))["VmHWM"].split()[0])


@dataclass(frozen=True)
class Usage:
    """A process with all its living threads at one moment."""

    cpu_seconds: float
    voluntary_switches: int
    involuntary_switches: int
    threads: int
    rss: int

    def since(self, before: Usage) -> Usage:
        """Counters become differences; threads and memory stay as they are now."""
        return Usage(
            self.cpu_seconds - before.cpu_seconds,
            self.voluntary_switches - before.voluntary_switches,
            self.involuntary_switches - before.involuntary_switches,
            self.threads,
            self.rss,
        )


def _threads(pid: int) -> Iterator[tuple[dict[str, str], int]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            yield _status(task / "status"), int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):  # a thread that ended while we looked
            continue


def usage(pid: int) -> Usage:
    """Sums over the threads of `pid`. CPU time is the scheduler's own, in ns: clock ticks are too coarse when idle."""
    cpu = voluntary = involuntary = threads = 0
    for status, nanoseconds in _threads(pid):
        cpu += nanoseconds
        voluntary += int(status["voluntary_ctxt_switches"])
        involuntary += int(status["nonvoluntary_ctxt_switches"])
        threads += 1
    rss = 1024 * int(_status(Path(f"/proc/{pid}/status"))["VmRSS"].split()[0])
    return Usage(cpu / 1e9, voluntary, involuntary, threads, rss)


@dataclass(frozen=True)
class ThreadUsage:
    """Counters of one thread since it began."""

    name: str
    cpu_seconds: float
    voluntary_switches: int


def by_thread(pid: int) -> dict[int, ThreadUsage]:
    """{thread id: its counters}. A name has 15 bytes at most; Python's threads have none of their own before 3.14."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status, schedstat = _status(task / "status"), (task / "schedstat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # a thread that ended while we looked
            continue
        switches = int(status["voluntary_ctxt_switches"])
        found[int(task.name)] = ThreadUsage(status["Name"], int(schedstat.split()[0]) / 1e9, switches)
    return found


def children(pid: int) -> list[int]:
    """PIDs of children, dead ones that are not reaped yet included."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold anything.
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):  # a process that ended while we looked
            continue
        if parent == pid:
            found.append(int(path.parent.name))
    return sorted(found)


def own_switches() -> tuple[int, int]:
    """How often the calling thread, and all threads of this process together, gave up the core by themselves."""
    caller = _status(Path("/proc/thread-self/status"))
    return int(caller["voluntary_ctxt_switches"]), usage(os.getpid()).voluntary_switches


def machine() -> dict[str, str]:
    """Facts of the machine on which the numbers were measured."""
    info = _status(Path("/proc/meminfo"))
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    system = os.uname()
    return {
        "cpu": models[0].partition(":")[2].strip() if models else system.machine,
        "cores": str(os.cpu_count()),
        "memory": f"{int(info['MemTotal'].split()[0]) / (1 << 20):.0f} GiB",
        "system": f"{system.sysname} {system.release.partition('-')[0]}",
    }
