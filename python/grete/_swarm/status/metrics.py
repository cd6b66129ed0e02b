"""`/metrics` of a swarm: the nodes' metrics with the label `node`, and the supervisor's own."""

import os
from collections.abc import Iterator

from grete import _native
from grete._swarm.node.metrics_segments import MetricsSegments
from grete._swarm.policy import exit_status
from grete._swarm.policy.node_state import Phase
from grete._swarm.status import memory
from grete._swarm.status.snapshot import Status

MAX_AGE = 5.0
"""Seconds. A node publishes once a second; older metrics belong to a process that does not run, and are omitted."""

_Sample = tuple[str, list[str], float]


def render(status: Status, metrics_segments: MetricsSegments) -> bytes:
    """Renders Prometheus' text format 0.0.4. No process is asked, so a hanging or stopped one delays nothing."""
    posted = [
        (node["id"], metrics_segments.get(node["id"]) if node["pid"] is not None else None) for node in status["nodes"]
    ]
    return _native.aggregate_metrics(posted, list(_supervisor_samples(status)), MAX_AGE)


def _supervisor_samples(status: Status) -> Iterator[_Sample]:
    nodes = status["nodes"]
    for phase in Phase:
        yield "grete_swarm_nodes", [phase], sum(node["state"] == phase for node in nodes)
    for node in nodes:
        number = str(node["id"])
        yield "grete_swarm_restarts_total", [number], node["restarts"]
        # Reasons that never happened, too: for Prometheus, a counter that begins with 1 has not increased.
        for reason, count in {**dict.fromkeys(exit_status.EXIT_REASONS, 0), **node["deaths_by_reason"]}.items():
            yield "grete_swarm_exits_total", [number, reason], count
        if node["uptime"] is not None:
            yield "grete_swarm_node_uptime_seconds", [number], node["uptime"]
        if node["report_age"] is not None:
            yield "grete_swarm_report_age_seconds", [number], node["report_age"]
    if (rss := memory.read_rss(os.getpid())) is not None:
        yield "grete_swarm_supervisor_memory_bytes", [], rss
