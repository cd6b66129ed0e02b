"""How the processes of a swarm share memory: `grete info --swarm`."""

from collections.abc import Iterator
from typing import TypedDict

from grete.cli.table import size, table
from grete.swarm.memory import Memory
from grete.swarm.status import Status


class Process(TypedDict):
    """One process of the swarm; `node` is None for the supervisor."""

    node: int | None
    pid: int
    memory: Memory


class Sharing(TypedDict):
    """What the swarm takes, and what it would take. Bytes; None: of a process it is not to be had."""

    app: str
    processes: list[Process]
    pss: int | None
    """What all of them take together."""
    alone: int | None
    """What as many processes would take that share nothing: the sum of their RSS, the supervisor left out."""


def of(status: Status) -> Sharing:
    """Of a status with memory."""
    processes: list[Process] = []
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
        "alone": _sum([process["memory"]["rss"] for process in processes if process["node"] is not None]),
    }


def shown(sharing: Sharing) -> Iterator[str]:
    """For people: a table, and what it means."""
    yield f"{sharing['app']}:"
    rows = [
        (
            "supervisor" if process["node"] is None else f"node {process['node']}",
            process["pid"],
            size(process["memory"]["rss"]),
            size(process["memory"]["pss"]),
            size(process["memory"]["shared"]),
            size(process["memory"]["private"]),
        )
        for process in sharing["processes"]
    ]
    yield from table(("PROCESS", "PID", "RSS", "PSS", "SHARED", "PRIVATE"), rows).splitlines()
    for text in dict.fromkeys(process["memory"]["missing"] for process in sharing["processes"]):
        if text is not None:
            yield f"! {text}"
    yield _summary(sharing)


def _summary(sharing: Sharing) -> str:
    nodes = sum(process["node"] is not None for process in sharing["processes"])
    pss, alone = sharing["pss"], sharing["alone"]
    if nodes == 0:
        return "No node runs just now."
    if pss is None or alone is None:
        return "How much they share cannot be told here: see the lines with !."
    there = f"{nodes} nodes and the supervisor" if nodes > 1 else "The node and the supervisor"
    apart = f"{nodes} processes that share nothing would" if nodes > 1 else "one process alone would"
    per = alone / nodes
    return (
        f"{there} take {size(pss)} together (the sum of PSS), where {apart} take about {size(alone)}: "
        f"{pss / per:.2f} x one process instead of {nodes} x, {_saving(pss, alone)}."
    )


def _saving(pss: int, alone: int) -> str:
    if pss >= alone:
        return (
            "so nothing is saved: load what is large before the fork (@app.preload), and keep it in few large objects"
        )
    return f"{1 - pss / alone:.0%} less"


def _sum(sizes: list[int | None]) -> int | None:
    return None if None in sizes else sum(one for one in sizes if one is not None)
