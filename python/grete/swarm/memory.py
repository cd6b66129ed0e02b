"""What a process takes of the machine's memory, and how much of that it shares.

Linux counts it where it says `smaps_rollup`: by a walk over the process's page tables, about a millisecond for 300 MB.
"""

import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypedDict

PROC = Path("/proc")
ROUND = 60.0
"""Seconds between two rounds of `MemoryWatch`, at least."""
_MOST_OF_THE_TIME = 0.0001
"""What part of the supervisor's time the rounds may take: they come more seldom where they are dear."""


class Memory(TypedDict):
    """Bytes. None: not to be had; `missing` says why."""

    rss: int | None
    """Resident: what of it lies in memory, shared pages in full."""
    pss: int | None
    """Proportional: shared pages count by the number of processes that share them. Only these can be added up."""
    shared: int | None
    """Of the resident: what at least one other process maps, too."""
    private: int | None
    """Of the resident: what nobody else maps."""
    missing: str | None


def of(pid: int, proc: Path = PROC) -> Memory:
    """The memory of a process of this machine. Total: what cannot be read is None, with the reason."""
    try:
        content = (proc / str(pid) / "smaps_rollup").read_bytes()
    except OSError as error:
        return _roughly(pid, proc, error)
    return _rolled_up(content) or _nothing("the kernel's smaps_rollup holds no Rss and Pss")


def rss(pid: int, proc: Path = PROC) -> int | None:
    """Resident bytes alone: no walk over page tables, a few microseconds. None: not to be had."""
    try:
        return int((proc / str(pid) / "statm").read_bytes().split()[1]) * resource.getpagesize() or None
    except (OSError, ValueError, IndexError):
        return None


def _rolled_up(content: bytes) -> Memory | None:
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


def _roughly(pid: int, proc: Path, error: OSError) -> Memory:
    """What is left where the kernel does not tell the rest."""
    if not (proc / "self").exists():
        return _nothing(f"there is no {proc} here, where Linux tells it")
    resident = rss(pid, proc)
    if isinstance(error, ProcessLookupError) or (resident is None and isinstance(error, FileNotFoundError)):
        return _nothing(f"process {pid} has ended")
    if isinstance(error, PermissionError):
        return _nothing(f"process {pid} is another user's, or not to be looked at: only they and root may", resident)
    if isinstance(error, FileNotFoundError):
        return _nothing("this kernel has no smaps_rollup, Linux has it since 4.14", resident)
    return _nothing(f"smaps_rollup of process {pid} cannot be read: {error.strerror or error}", resident)


def _nothing(why: str, resident: int | None = None) -> Memory:
    return {"rss": resident, "pss": None, "shared": None, "private": None, "missing": why}


class Measured(Protocol):
    """What is read of the manager's facts about a node."""

    @property
    def id(self) -> int: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def phase(self) -> str: ...


class NodeMemory(TypedDict):
    """A node's memory in the event."""

    node: int
    pid: int
    rss: int | None
    pss: int | None
    private: int | None


class Memories(TypedDict):
    """Fields of the event `swarm.memory`."""

    pss: int | None
    """Of the nodes and the supervisor together. None: one of them is not to be had."""
    supervisor: int | None
    """The supervisor's share of it."""
    nodes: list[NodeMemory]


class MemoryWatch:
    """Measures the nodes in rounds while all are steady: one at a tick, so that no tick takes long."""

    def __init__(
        self,
        measure: Callable[[int], Memory] = of,
        clock: Callable[[], float] = time.perf_counter,
        every: float = ROUND,
    ) -> None:
        self._measure = measure
        self._clock = clock
        self._every = every
        self._next: float | None = None
        self._waiting: list[tuple[int, int]] = []
        self._found: list[NodeMemory] = []
        self._cost = 0.0

    def tick(self, now: float, nodes: Sequence[Measured]) -> Memories | None:
        """Call it at each common tick. What a round found, when it is over; it is given up if a node is not steady.

        The first round comes when all nodes have been steady for a while: then sharing has settled.
        """
        here = [(node.id, node.pid) for node in nodes if node.pid is not None and node.phase == "steady"]
        if len(here) < len(nodes) or not here:
            self._waiting, self._found = [], []
            self._next = None
            return None
        if self._next is None:
            self._next = now + self._every
        if now < self._next:
            return None
        if not self._found:
            self._waiting, self._cost = here, 0.0
        node, pid = self._waiting.pop(0)
        memory = self._timed(pid)
        self._found.append(
            {"node": node, "pid": pid, "rss": memory["rss"], "pss": memory["pss"], "private": memory["private"]}
        )
        if self._waiting:
            return None
        own = self._timed(os.getpid())["pss"]
        found, self._found = self._found, []
        self._next = now + max(self._every, self._cost / _MOST_OF_THE_TIME)
        shares = [one["pss"] for one in found]
        known = own is not None and None not in shares
        return {
            "pss": own + sum(share or 0 for share in shares) if known and own is not None else None,
            "supervisor": own,
            "nodes": found,
        }

    def _timed(self, pid: int) -> Memory:
        begin = self._clock()
        memory = self._measure(pid)
        self._cost += self._clock() - begin
        return memory


def told(memories: Memories) -> str:
    """What the log line says."""
    nodes = memories["nodes"]
    whole = memories["pss"]
    if whole is None:
        sizes = ", ".join(f"{one['node']}: {_mib(one['rss'])}" for one in nodes)
        return f"memory of {len(nodes)} nodes, shared pages counted in each: {sizes}"
    sizes = ", ".join(f"node {one['node']}: {_mib(one['pss'])}" for one in nodes)
    return f"the swarm takes {_mib(whole)} (PSS): supervisor {_mib(memories['supervisor'])}, {sizes}"


def _mib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / (1 << 20):.0f} MiB"
