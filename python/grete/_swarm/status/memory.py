"""Memory of a process, and how much of it is shared.

From Linux' `smaps_rollup`, whose read walks the process's page tables: about a millisecond for 300 MB.
"""

import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypedDict

from grete._plural import counted

PROC = Path("/proc")
ROUND_INTERVAL = 60.0
"""Minimum seconds between two rounds of `MemorySampler`."""
_MAX_TIME_SHARE = 0.0001
"""Maximum share of the supervisor's time for the rounds: expensive rounds come less often."""


class Memory(TypedDict):
    """Sizes in bytes. None: not available, and `missing` says why."""

    rss: int | None
    """Resident set size, with shared pages in full."""
    pss: int | None
    """Proportional set size: a shared page counts as its part per process. Only PSS can be added up."""
    shared: int | None
    """Part of the RSS that at least one other process maps, too."""
    private: int | None
    """Part of the RSS that no other process maps."""
    missing: str | None


def read_memory(pid: int, proc: Path = PROC) -> Memory:
    """Reads the memory of a process of this machine. Never raises: a missing number is None, with the reason."""
    try:
        content = (proc / str(pid) / "smaps_rollup").read_bytes()
    except OSError as error:
        return _read_without_rollup(pid, proc, error)
    return _parse_smaps_rollup(content) or _unavailable("the kernel's smaps_rollup holds no Rss and Pss")


def read_rss(pid: int, proc: Path = PROC) -> int | None:
    """Reads the RSS alone in a few microseconds, without a walk over page tables. None: not available."""
    try:
        return int((proc / str(pid) / "statm").read_bytes().split()[1]) * resource.getpagesize() or None
    except (OSError, ValueError, IndexError):
        return None


def _parse_smaps_rollup(content: bytes) -> Memory | None:
    sizes: dict[bytes, int] = {}
    for line in content.splitlines():
        name, _, value = line.partition(b":")
        number, _, unit = value.strip().partition(b" ")
        if unit == b"kB" and number.isdigit():
            sizes[name] = int(number) * 1024
    if b"Rss" not in sizes or b"Pss" not in sizes:
        return None
    return {
        "rss": sizes[b"Rss"],
        "pss": sizes[b"Pss"],
        "shared": sizes.get(b"Shared_Clean", 0) + sizes.get(b"Shared_Dirty", 0),
        "private": sizes.get(b"Private_Clean", 0) + sizes.get(b"Private_Dirty", 0),
        "missing": None,
    }


def _read_without_rollup(pid: int, proc: Path, error: OSError) -> Memory:
    """Returns what is known without `smaps_rollup`."""
    if not (proc / "self").exists():
        return _unavailable(f"there is no {proc} here, which Linux has")
    resident = read_rss(pid, proc)
    if isinstance(error, ProcessLookupError) or (resident is None and isinstance(error, FileNotFoundError)):
        return _unavailable(f"process {pid} has ended")
    if isinstance(error, PermissionError):
        return _unavailable(
            f"process {pid} is another user's, or protected: only its owner and root may read it", resident
        )
    if isinstance(error, FileNotFoundError):
        return _unavailable("this kernel has no smaps_rollup, Linux has it since 4.14", resident)
    return _unavailable(f"smaps_rollup of process {pid} cannot be read: {error.strerror or error}", resident)


def _unavailable(why: str, resident: int | None = None) -> Memory:
    return {"rss": resident, "pss": None, "shared": None, "private": None, "missing": why}


class MeasuredNode(Protocol):
    """Fields of the manager's `NodeState` that are read here."""

    @property
    def id(self) -> int: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def phase(self) -> str: ...


class NodeMemory(TypedDict):
    """Memory of one node in the event `swarm.memory`."""

    node: int
    pid: int
    rss: int | None
    pss: int | None
    private: int | None


class SwarmMemory(TypedDict):
    """Fields of the event `swarm.memory`."""

    pss: int | None
    """PSS of the nodes and the supervisor together. None: one of them is not available."""
    supervisor: int | None
    """PSS of the supervisor alone."""
    nodes: list[NodeMemory]


class MemorySampler:
    """Measures the nodes in rounds while all are ready: one node per tick, so that no tick takes long."""

    def __init__(
        self,
        measure: Callable[[int], Memory] = read_memory,
        clock: Callable[[], float] = time.perf_counter,
        every: float = ROUND_INTERVAL,
    ) -> None:
        self._measure = measure
        self._clock = clock
        self._interval = every
        self._next: float | None = None
        self._pending: list[tuple[int, int]] = []
        self._measured: list[NodeMemory] = []
        self._cost = 0.0

    def tick(self, now: float, nodes: Sequence[MeasuredNode]) -> SwarmMemory | None:
        """Measures one node. Called at each common tick. Returns the result at the end of a round, else None.

        A round is aborted when a node is not ready. The first round comes after all nodes have been ready for a while,
        because sharing has settled by then.
        """
        here = [(node.id, node.pid) for node in nodes if node.pid is not None and node.phase == "ready"]
        if len(here) < len(nodes) or not here:
            self._pending, self._measured = [], []
            self._next = None
            return None
        if self._next is None:
            self._next = now + self._interval
        if now < self._next:
            return None
        if not self._measured:
            self._pending, self._cost = here, 0.0
        node, pid = self._pending.pop(0)
        memory = self._measure_timed(pid)
        self._measured.append(
            {"node": node, "pid": pid, "rss": memory["rss"], "pss": memory["pss"], "private": memory["private"]}
        )
        if self._pending:
            return None
        own = self._measure_timed(os.getpid())["pss"]
        found, self._measured = self._measured, []
        self._next = now + max(self._interval, self._cost / _MAX_TIME_SHARE)
        shares = [one["pss"] for one in found]
        known = own is not None and None not in shares
        return {
            "pss": own + sum(share or 0 for share in shares) if known and own is not None else None,
            "supervisor": own,
            "nodes": found,
        }

    def _measure_timed(self, pid: int) -> Memory:
        begin = self._clock()
        memory = self._measure(pid)
        self._cost += self._clock() - begin
        return memory


def describe(memories: SwarmMemory) -> str:
    """Formats the log line."""
    nodes = memories["nodes"]
    whole = memories["pss"]
    if whole is None:
        sizes = ", ".join(f"{one['node']}: {_mib(one['rss'])}" for one in nodes)
        return f"memory of {counted(len(nodes), 'node')}, shared pages counted in each: {sizes}"
    sizes = ", ".join(f"node {one['node']}: {_mib(one['pss'])}" for one in nodes)
    return f"the swarm takes {_mib(whole)} (PSS): supervisor {_mib(memories['supervisor'])}, {sizes}"


def _mib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / (1 << 20):.0f} MiB"
