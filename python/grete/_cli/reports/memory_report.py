"""Report of `grete info --swarm`: shared memory of the processes of a swarm."""

from collections.abc import Iterator
from typing import TypedDict

from grete._cli.terminal.table import Styled, Table, format_size
from grete._swarm.status.memory import Memory
from grete._swarm.status.snapshot import Status


class ProcessMemory(TypedDict):
    """Memory of one process of the swarm; `node` is None for the supervisor."""

    node: int | None
    pid: int
    memory: Memory


class MemoryReport(TypedDict):
    """Memory of the swarm, and of processes without sharing. Bytes; None: unknown for at least one process."""

    app: str
    processes: list[ProcessMemory]
    pss: int | None
    """Memory of all processes together."""
    unshared_total: int | None
    """Memory of as many processes without sharing: the sum of their RSS, without the supervisor."""


def from_status(status: Status) -> MemoryReport:
    """Builds the report from a status with memory."""
    processes: list[ProcessMemory] = []
    if status["memory"] is not None:
        processes.append({"node": None, "pid": status["pid"], "memory": status["memory"]})
    processes += [
        {"node": node["id"], "pid": node["pid"], "memory": node["memory"]}
        for node in status["nodes"]
        if node["pid"] is not None and node["memory"] is not None
    ]
    return {
        "app": status["app"],
        "processes": processes,
        "pss": _sum([process["memory"]["pss"] for process in processes]),
        "unshared_total": _sum([process["memory"]["rss"] for process in processes if process["node"] is not None]),
    }


def render(sharing: MemoryReport) -> Iterator[str | Table]:
    """Renders the report for people: a table, and its meaning."""
    yield f"{sharing['app']}:"
    rows = [
        (
            "supervisor" if process["node"] is None else f"node {process['node']}",
            process["pid"],
            format_size(process["memory"]["rss"]),
            format_size(process["memory"]["pss"]),
            format_size(process["memory"]["shared"]),
            format_size(process["memory"]["private"]),
        )
        for process in sharing["processes"]
    ]
    yield Table(("PROCESS", "PID", "RSS", "PSS", "SHARED", "PRIVATE"), rows)
    for text in dict.fromkeys(process["memory"]["missing"] for process in sharing["processes"]):
        if text is not None:
            yield Styled(f"! {text}", "yellow")
    yield _summary(sharing)


def _summary(sharing: MemoryReport) -> str:
    nodes = sum(process["node"] is not None for process in sharing["processes"])
    pss, unshared_total = sharing["pss"], sharing["unshared_total"]
    if nodes == 0:
        return "No node runs just now."
    if pss is None or unshared_total is None:
        return "The shared memory is unknown: see the lines with !."
    there = f"{nodes} nodes and the supervisor" if nodes > 1 else "The node and the supervisor"
    apart = f"{nodes} processes that share nothing would" if nodes > 1 else "one process alone would"
    per = unshared_total / nodes
    return (
        f"{there} take {format_size(pss)} together (the sum of PSS), where {apart} take about "
        f"{format_size(unshared_total)}: "
        f"{pss / per:.2f} x one process instead of {nodes} x, {_saving(pss, unshared_total)}."
    )


def _saving(pss: int, alone: int) -> str:
    if pss >= alone:
        return (
            "so nothing is saved: load what is large before the fork (@app.preload), and keep it in few large objects"
        )
    return f"{1 - pss / alone:.0%} less"


def _sum(sizes: list[int | None]) -> int | None:
    return None if None in sizes else sum(one for one in sizes if one is not None)
