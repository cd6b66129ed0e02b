"""`/metrics` of a swarm: what the nodes post, each with its number as label `node`, and what the supervisor knows."""

import os
from collections.abc import Iterator

from grete import _core
from grete.swarm import exits, memory
from grete.swarm.boards import Boards
from grete.swarm.facts import Phase
from grete.swarm.status import Status

OLDEST = 5.0
"""Seconds. A node posts once a second; what is older is that of a process that does not run, and no news of it."""

_Sample = tuple[str, list[str], float]


def text(status: Status, boards: Boards) -> bytes:
    """All of it, in Prometheus' text format 0.0.4. No process is asked: one that hangs or is stopped costs nothing."""
    posted = [(node["id"], boards.of(node["id"]) if node["pid"] is not None else None) for node in status["nodes"]]
    return _core.gather_metrics(posted, list(_own(status)), OLDEST)


def _own(status: Status) -> Iterator[_Sample]:
    nodes = status["nodes"]
    for phase in Phase:
        yield "grete_swarm_nodes", [phase], sum(node["state"] == phase for node in nodes)
    for node in nodes:
        number = str(node["id"])
        yield "grete_swarm_restarts_total", [number], node["restarts"]
        # Those that never happened, too: a counter that begins with 1 has not grown, as Prometheus sees it.
        for reason, count in {**dict.fromkeys(exits.REASONS, 0), **node["deaths_by_reason"]}.items():
            yield "grete_swarm_deaths_total", [number, reason], count
        if node["uptime"] is not None:
            yield "grete_swarm_node_uptime_seconds", [number], node["uptime"]
        if node["report_age"] is not None:
            yield "grete_swarm_report_age_seconds", [number], node["report_age"]
    if (rss := memory.rss(os.getpid())) is not None:
        yield "grete_swarm_supervisor_memory_bytes", [], rss
