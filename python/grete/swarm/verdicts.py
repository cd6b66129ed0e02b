"""What the probes say: alive or not, ready or not, and everything that is amiss, by name."""

from typing import TypedDict

from grete.swarm.status import NodeStatus, OverdueStatus, Status

UNKILLABLE = 5.0
"""Seconds after SIGKILL was due from which a node counts as one that cannot be killed."""
GIL_WAIT = 1.0
"""Seconds of waiting for the GIL that are worth to be told."""


class Problem(TypedDict, total=False):
    """Something amiss with a node. Which fields there are depends on what it is; `text` says all of it."""

    node: int
    state: str
    reason: str
    """Why the node is being stopped, or "handler", "stalled", "gil", "membership", "starting", "died", "unkillable"."""
    seconds: float
    """How long it has been so."""
    limit: float
    handler: str
    topic: str
    partition: int
    text: str


class Verdict(TypedDict):
    """A probe's answer."""

    ok: bool
    why: str
    app: str
    nodes: int
    steady: int
    problems: list[Problem]


def live(status: Status) -> Verdict:
    """False: restarting the whole swarm would help, and nothing less.

    That is so when a node is still there 5 s after SIGKILL was due, or when every node is in a crash loop. A node that
    hangs or dies is the supervisor's business and no reason; nor is a broker that is away.
    """
    stuck = [node for node in status["nodes"] if _unkillable(node)]
    if stuck:
        return _verdict(status, False, "; ".join(_stuck_text(node) for node in stuck))
    if status["nodes"] and all(node["looping"] for node in status["nodes"]):
        return _verdict(status, False, "every node dies again and again soon after its start")
    return _verdict(status, True, "the supervisor does its work")


def ready(status: Status) -> Verdict:
    """True while at least one node is steady (has its place in its groups) and no stop is under way."""
    steady = _steady(status)
    if status["stopping"]:
        return _verdict(status, False, "the swarm is stopping")
    if steady == 0:
        return _verdict(status, False, "no node is steady")
    return _verdict(status, True, f"{steady} of {len(status['nodes'])} nodes are steady")


def problems(status: Status) -> list[Problem]:
    """Everything amiss, node by node."""
    found = []
    for node in status["nodes"]:
        state = _state(node)
        if state is not None:
            found.append(state)
        found += of_work(node)
    return found


def of_work(node: NodeStatus) -> list[Problem]:
    """What is amiss with what the node does, and cannot be seen from its state."""
    found = [_overdue(node, late) for late in node["overdue"]]
    told = {f"{late['topic']}[{late['partition']}]" for late in node["overdue"]}
    found += [_stalled(node, lane) for lane in node["stalled"] if lane not in told]
    wait = node["gil_wait"]
    if wait is not None and wait >= GIL_WAIT:
        found.append(_problem(node, "gil", f"node {node['id']}: somebody has held the GIL for {wait:.1f} s", wait))
    return found


def _verdict(status: Status, ok: bool, why: str) -> Verdict:
    return {
        "ok": ok,
        "why": why,
        "app": status["app"],
        "nodes": len(status["nodes"]),
        "steady": _steady(status),
        "problems": problems(status),
    }


def _steady(status: Status) -> int:
    return sum(node["state"] == "steady" for node in status["nodes"])


def _unkillable(node: NodeStatus) -> bool:
    return node["kill_in"] is not None and node["kill_in"] <= -UNKILLABLE


def _stuck_text(node: NodeStatus) -> str:
    after = -(node["kill_in"] or 0.0)
    return f"node {node['id']} (process {node['pid']}) is still there {after:.0f} s after SIGKILL was due"


def _overdue(node: NodeStatus, late: OverdueStatus) -> Problem:
    text = (
        f"node {node['id']}: {late['handler']} has run for {late['seconds']:.1f} s on "
        f"{late['topic']}[{late['partition']}], and its handler_timeout is {late['limit']:g} s"
    )
    return {**_problem(node, "handler", text), **late}


def _stalled(node: NodeStatus, lane: str) -> Problem:
    job = node["oldest"]
    if job is None or lane != f"{job['topic']}[{job['partition']}]":
        text = f"node {node['id']}: a call on {lane} has run longer than its stall_after"
        return _problem(node, "stalled", text)
    text = (
        f"node {node['id']}: {job['handler']} has run for {job['seconds']:.1f} s on {lane}, longer than its stall_after"
    )
    return {**_problem(node, "stalled", text), **job}


def _state(node: NodeStatus) -> Problem | None:
    """What the node's state itself says; None: it is steady."""
    name, seconds = f"node {node['id']}", node["seconds"]
    match node["state"]:
        case "steady":
            return None
        case "stopping" | "killed":
            if _unkillable(node):
                return _problem(node, "unkillable", _stuck_text(node), seconds)
            reason = node["reason"] or "stop"
            return _problem(node, reason, f"{name} has been {node['state']} for {seconds:.1f} s: {reason}", seconds)
        case "backoff":
            again = f", starts again in {node['restart_in']:.1f} s" if node["restart_in"] is not None else ""
            return _problem(node, "died", f"{name} died ({node['last_death'] or 'could not start'}){again}", seconds)
        case "down":
            return _problem(node, "died", f"{name} is down ({node['last_death'] or 'not started'})", seconds)
        case "unsteady":
            return _problem(
                node, "membership", f"{name} has not been steady for {seconds:.1f} s{_whose(node)}", seconds
            )
        case _:
            return _problem(node, "starting", f"{name} has been starting for {seconds:.1f} s{_whose(node)}", seconds)


def _whose(node: NodeStatus) -> str:
    """Which groups keep it waiting."""
    waiting = [f'group "{group["group"]}" is {group["state"]}' for group in node["groups"] if not group["steady"]]
    return f": {', '.join(waiting)}" if waiting else ""


def _problem(node: NodeStatus, reason: str, text: str, seconds: float | None = None) -> Problem:
    problem: Problem = {"node": node["id"], "state": node["state"], "reason": reason, "text": text}
    if seconds is not None:
        problem["seconds"] = seconds
    return problem
