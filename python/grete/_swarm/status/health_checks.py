"""Answers of the probes: liveness, readiness, and a list of all problems.

The checks of a process are in the crate grete-health. Only the thresholds are shared. A process checks its own state
against its limits; the supervisor checks the states of nodes, some without a process, by their last reports.
"""

from typing import TypedDict

from grete import _native
from grete._plural import counted, plural
from grete._swarm.status.snapshot import (
    FailedPartitionStatus,
    GroupStatus,
    NodeStatus,
    OverdueJobStatus,
    Status,
    UnmovedLaneStatus,
)

UNKILLABLE_AFTER = 5.0
"""Seconds after the due time of SIGKILL from which a node counts as unkillable."""


class Problem(TypedDict, total=False):
    """Problem of a node. Its fields depend on its kind; `text` describes all of it."""

    node: int
    state: str
    reason: str
    """Reason of the stop, or "handler", "stalled", "partition", "gil", "loop", "topic", "membership", "login",
    "authorization", "starting", "died" or "unkillable".
    """
    seconds: float
    """Duration of the problem."""
    limit: float
    handler: str
    group: str
    topic: str
    partition: int
    failure: str
    error: str
    waits_for: str
    lag: int | None
    text: str


class ProbeResult(TypedDict):
    """Response of a probe."""

    ok: bool
    why: str
    app: str
    nodes: int
    ready: int
    problems: list[Problem]


def check_liveness(status: Status) -> ProbeResult:
    """Checks whether the supervisor works. Not ok means that only a restart of the whole swarm would help.

    Not ok when a node still exists 5 s after SIGKILL was due, or when every node is in a crash loop. With
    `failed_partition_probes="livez"` also while a partition cannot be read. A node that hangs or dies is replaced by
    the supervisor, and is no reason; nor is an unreachable broker.
    """
    stuck = [node for node in status["nodes"] if _unkillable(node)]
    if stuck:
        return _result(status, False, "; ".join(_unkillable_text(node) for node in stuck))
    if status["nodes"] and all(node["looping"] for node in status["nodes"]):
        return _result(status, False, "every node is in a crash loop")
    failed = _longest_failed_partition(status)
    if failed is not None and status["failed_partition_probes"] == "livez":
        return _result(status, False, failed)
    return _result(status, True, "the supervisor is running")


def check_readiness(status: Status) -> ProbeResult:
    """Checks whether the swarm serves. Ok while at least one node is ready (a stable member of its groups), all
    partitions can be read (unless `failed_partition_probes` is "none"), and no stop is under way.
    """
    ready_count = _ready_count(status)
    if status["stopping"]:
        return _result(status, False, "the swarm is stopping")
    if ready_count == 0:
        cause = next((text for node in status["nodes"] if (text := _not_ready_cause(node))), None)
        return _result(status, False, f"no node is ready; {cause}" if cause else "no node is ready")
    failed = _longest_failed_partition(status)
    if failed is not None and status["failed_partition_probes"] != "none":
        return _result(status, False, failed)
    return _result(
        status,
        True,
        f"{ready_count} of {counted(len(status['nodes']), 'node')} {plural(ready_count, 'is', 'are')} ready",
    )


def collect_problems(status: Status) -> list[Problem]:
    """Returns all problems, node by node."""
    found = []
    for node in status["nodes"]:
        state = _state_problem(node)
        if state is not None:
            found.append(state)
        found += work_problems(node)
    return found


def work_problems(node: NodeStatus) -> list[Problem]:
    """Returns the problems of the node's work, which its state does not show."""
    found = [_overdue_problem(node, late) for late in node["overdue"]]
    named_lanes = {f"{late['topic']}[{late['partition']}]" for late in node["overdue"]}
    named_lanes |= {
        f"{lane['topic']}[{lane['partition']}]" for lane in node.get("unmoved", ()) if lane["waits_for"] == "delivery"
    }
    found += [_stalled_problem(node, lane) for lane in node["stalled"] if lane not in named_lanes]
    failed = {(partition["topic"], partition["partition"]) for partition in node["failed"]}
    found += [
        _unmoved_problem(node, lane)
        for lane in node.get("unmoved", ())  # an older supervisor has none
        if (lane["topic"], lane["partition"]) not in failed
        and not (lane["waits_for"] == "handler" and f"{lane['topic']}[{lane['partition']}]" in node["stalled"])
        and not (lane["waits_for"] == "event_loop" and (node["loop_wait"] or 0.0) >= _native.LOOP_WAIT_WARNING)
    ]
    found += [_failed_partition_problem(node, partition) for partition in node["failed"]]
    found += [problem for group in node["groups"] if group["ready"] and (problem := _refusal_problem(node, group))]
    wait = node["gil_wait"]
    found += [
        {**_problem(node, "topic", f"node {node['id']}: {topic['text']}"), "topic": topic["topic"]}
        for topic in node["missing"]
    ]
    if wait is not None and wait >= _native.GIL_WAIT_WARNING:
        found.append(_problem(node, "gil", f"node {node['id']}: one thread has held the GIL for {wait:.1f} s", wait))
    wait = node["loop_wait"]
    if wait is not None and wait >= _native.LOOP_WAIT_WARNING:
        text = f"node {node['id']}: the event loop has been blocked for {wait:.1f} s, and all its async handlers wait"
        found.append(_problem(node, "loop", text, wait))
    return found


def _result(status: Status, ok: bool, why: str) -> ProbeResult:
    return {
        "ok": ok,
        "why": why,
        "app": status["app"],
        "nodes": len(status["nodes"]),
        "ready": _ready_count(status),
        "problems": collect_problems(status),
    }


def _ready_count(status: Status) -> int:
    return sum(node["state"] == "ready" for node in status["nodes"])


def _unkillable(node: NodeStatus) -> bool:
    return node["kill_in"] is not None and node["kill_in"] <= -UNKILLABLE_AFTER


def _unkillable_text(node: NodeStatus) -> str:
    after = -(node["kill_in"] or 0.0)
    return f"node {node['id']} (process {node['pid']}) is still there {after:.0f} s after SIGKILL was due"


def _overdue_problem(node: NodeStatus, late: OverdueJobStatus) -> Problem:
    text = (
        f"node {node['id']}: {late['handler']} has run for {late['seconds']:.1f} s on "
        f"{late['topic']}[{late['partition']}], and its handler_timeout is {late['limit']:g} s"
    )
    return {**_problem(node, "handler", text), **late}


def _unmoved_problem(node: NodeStatus, lane: UnmovedLaneStatus) -> Problem:
    text = (
        f"node {node['id']}: {lane['topic']}[{lane['partition']}] has not moved for {lane['seconds']:.1f} s: "
        f"{lane['wait']}"
    )
    return {
        **_problem(node, "stalled", text),
        "handler": lane["handler"],
        "topic": lane["topic"],
        "partition": lane["partition"],
        "waits_for": lane["waits_for"],
        "seconds": lane["seconds"],
        "lag": lane["lag"],
    }


def _failed_partition_problem(node: NodeStatus, failed: FailedPartitionStatus) -> Problem:
    text = (
        f"node {node['id']}: {failed['topic']}[{failed['partition']}] cannot be read for {failed['seconds']:.1f} s "
        f"({failed['failure']}): {failed['error']}"
    )
    return {**_problem(node, "partition", text), **failed}


def _refusal_problem(node: NodeStatus, group: GroupStatus) -> Problem | None:
    """Returns the problem of a member whose login, or whose requests for want of an ACL, a broker refuses; None: none.

    A member without its place has the problem "membership", whose text says the same.
    """
    failure = group["login_failure"] or group["authorization_failure"]
    if failure is None:
        return None
    reason = "login" if group["login_failure"] else "authorization"
    text = f'node {node["id"]}: group "{group["group"]}": {failure}'
    return {**_problem(node, reason, text), "group": group["group"]}


def _not_ready_cause(node: NodeStatus) -> str | None:
    """Returns what a broker refuses to the node, or the error that ended its last process; None: neither is known."""
    if node["state"] in ("backoff", "down") and ": " in (node["last_death"] or ""):
        return f"node {node['id']} died ({node['last_death']})"
    refused = [problem for group in node["groups"] if (problem := _refusal_problem(node, group))]
    return refused[0]["text"] if refused else None


def _longest_failed_partition(status: Status) -> str | None:
    """Returns the text for the partition that has been unreadable for longest; None: all can be read."""
    failed = [_failed_partition_problem(node, partition) for node in status["nodes"] for partition in node["failed"]]
    return max(failed, key=lambda problem: problem["seconds"])["text"] if failed else None


def _stalled_problem(node: NodeStatus, lane: str) -> Problem:
    job = node["oldest"]
    if job is None or lane != f"{job['topic']}[{job['partition']}]":
        text = f"node {node['id']}: a job on {lane} has taken longer than its stall_after"
        return _problem(node, "stalled", text)
    text = (
        f"node {node['id']}: {job['handler']} has run for {job['seconds']:.1f} s on {lane}, longer than its stall_after"
    )
    return {**_problem(node, "stalled", text), **job}


def _state_problem(node: NodeStatus) -> Problem | None:
    """Returns the problem that the node's state itself is; None: the node is ready."""
    name, seconds = f"node {node['id']}", node["seconds"]
    match node["state"]:
        case "ready":
            return None
        case "stopping" | "killed":
            if _unkillable(node):
                return _problem(node, "unkillable", _unkillable_text(node), seconds)
            reason = node["reason"] or "stop"
            return _problem(node, reason, f"{name} has been {node['state']} for {seconds:.1f} s: {reason}", seconds)
        case "backoff":
            again = f", starts again in {node['restart_in']:.1f} s" if node["restart_in"] is not None else ""
            return _problem(node, "died", f"{name} died ({node['last_death'] or 'could not start'}){again}", seconds)
        case "down":
            return _problem(node, "died", f"{name} is down ({node['last_death'] or 'not started'})", seconds)
        case "not_ready":
            return _problem(
                node, "membership", f"{name} has not been ready for {seconds:.1f} s{_pending_groups(node)}", seconds
            )
        case _:
            return _problem(
                node, "starting", f"{name} has been starting for {seconds:.1f} s{_pending_groups(node)}", seconds
            )


def _pending_groups(node: NodeStatus) -> str:
    """Formats what the node waits for; "" if it is unknown."""
    if node["waiting"]:
        return f": {node['waiting']}"
    waiting = [f'group "{group["group"]}" is {group["state"]}' for group in node["groups"] if not group["ready"]]
    return f": {', '.join(waiting)}" if waiting else ""


def _problem(node: NodeStatus, reason: str, text: str, seconds: float | None = None) -> Problem:
    problem: Problem = {"node": node["id"], "state": node["state"], "reason": reason, "text": text}
    if seconds is not None:
        problem["seconds"] = seconds
    return problem
