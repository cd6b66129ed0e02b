"""Log texts of the Manager's events. `grete.instrumentation.events` lists the events with their fields."""

import errno
import signal
from collections.abc import Sequence
from logging import DEBUG, ERROR, INFO, WARNING
from typing import TYPE_CHECKING

from grete._plural import counted, plural
from grete._swarm.policy import exit_status, wait_report
from grete._swarm.policy.actions import EmitEvent
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.node_state import NodeState, Phase

if TYPE_CHECKING:
    from grete._swarm.policy.health_rules import RuleViolation

# Maximum number of nodes that one log line describes.
_MAX_NAMED = 8
_EXIT_HINTS = {
    0: ", although the supervisor did not ask it to stop",
    3: ": its reports were not read, so it assumed that the supervisor had died",
}
_EMPTY_FIELDS = dict.fromkeys(("seconds", "limit", "handler", "topic", "partition", "rss", "max_rss", "error"))


def make_event(name: str, level: int, text: str, **fields: object) -> EmitEvent:
    return EmitEvent(name, level, text, fields)


def started(node: NodeState) -> EmitEvent:
    text = f"{_label(node)} was started" + (f", restart {node.restarts}" if node.restarts else "")
    return EmitEvent("swarm.node.started", INFO, text, {**_ids(node), "restarts": node.restarts})


def fork_failed(node: NodeState, error: OSError, restart_in: float | None, down_reason: str | None) -> EmitEvent:
    cure = (
        "; the machine or the container lacks memory or processes (pids.max, ulimit -u)"
        if _is_resource_error(error)
        else ""
    )
    text = f"node {node.id} could not be forked: {error}{cure}; {_restart_clause(restart_in, down_reason)}"
    return EmitEvent(
        "swarm.node.fork_failed", ERROR, text, {"node": node.id, "error": str(error), "restart_in": restart_in}
    )


def ready(now: float, node: NodeState) -> EmitEvent:
    first = node.first_ready_at is None
    seconds = now - (node.not_ready_since if node.not_ready_since is not None else now)
    text = f"{_label(node)} is ready {seconds:.1f} s after {'its start' if first else 'it stopped being ready'}"
    return EmitEvent("swarm.node.ready", INFO if first else DEBUG, text, {**_ids(node), "seconds": seconds})


def not_ready(node: NodeState) -> EmitEvent:
    return EmitEvent("swarm.node.not_ready", DEBUG, f"{_label(node)} is not ready any more", _ids(node))


def recovered(node: NodeState) -> EmitEvent:
    text = f"{_label(node)} has recovered after {counted(node.short_lives, 'early death')} in a row"
    return EmitEvent("swarm.node.recovered", INFO, text, {**_ids(node), "lives": node.short_lives})


def stopping(node: NodeState, violation: "RuleViolation", down_reason: str | None) -> EmitEvent:
    """Returns the event for a node that broke a health rule. `down_reason`: why it is not replaced; None: it is."""
    then = "will be replaced" if down_reason is None else f"will not be replaced: {down_reason}"
    text = f"{_label(node)} {violation.text}; it is asked to stop and {then}"
    return EmitEvent(
        "swarm.node.stopping",
        WARNING,
        text,
        {**_ids(node), "reason": violation.reason, **_EMPTY_FIELDS, **violation.fields},
    )


def rolling_stop(node: NodeState, left: int) -> EmitEvent:
    """Returns the event for a node whose turn in the rolling restart has come. `left`: nodes still to be replaced."""
    text = f"{_label(node)} is asked to stop by the rolling restart; nodes left after it: {left}"
    return EmitEvent("swarm.node.stopping", INFO, text, {**_ids(node), "reason": "restart", **_EMPTY_FIELDS})


def self_stopping(node: NodeState, limit: float) -> EmitEvent:
    """Returns the event for a node that reported that it stops, without a request. `limit`: seconds until SIGKILL."""
    text = (
        f"{_label(node)} stops by itself, without a request of the supervisor: its own log says why; it is killed "
        f"unless it ends within {limit:g} s"
    )
    return EmitEvent(
        "swarm.node.stopping", WARNING, text, {**_ids(node), "reason": "itself", **_EMPTY_FIELDS, "limit": limit}
    )


def killing(now: float, node: NodeState) -> EmitEvent:
    seconds = now - (node.term_sent_at if node.term_sent_at is not None else node.since)
    text = f"{_label(node)} did not stop within {seconds:.1f} s ({node.stop_reason}); it is killed"
    return EmitEvent("swarm.node.killing", ERROR, text, {**_ids(node), "reason": node.stop_reason, "seconds": seconds})


def unkillable(now: float, node: NodeState) -> EmitEvent:
    seconds = now - node.since
    text = (
        f"{_label(node)} is still alive {seconds:.1f} s after SIGKILL: the kernel cannot end it, most often because of "
        f"a wait for a disk or a network file system; see /proc/{node.pid}/stack"
    )
    return EmitEvent("swarm.node.unkillable", ERROR, text, {**_ids(node), "seconds": seconds})


def died(now: float, node: NodeState, status: int, restart_in: float | None, down_reason: str | None) -> EmitEvent:
    """Returns the event for a reaped node. Must be called before the state of the ended process is reset.

    `restart_in`: seconds until the next fork; None: no fork, because of `down_reason`.
    """
    uptime = now - (node.forked_at if node.forked_at is not None else now)
    reason, rss = node.stop_reason, node.last_report.rss if node.last_report is not None else None
    asked = node.term_sent_at is not None
    well = exit_status.is_clean(status, asked)
    if node.phase is Phase.KILLED and status == -signal.SIGKILL:
        end = f"was killed ({reason})"
    elif status == -signal.SIGKILL:
        last = f"; its last report said {rss / 2**20:,.1f} MiB" if rss is not None else ""
        end = f"was killed by SIGKILL, not by the supervisor: by the kernel's OOM killer, or by hand{last}"
    elif asked and well:
        end = f"has stopped ({reason})"
    elif status < 0:
        end = f"was {exit_status.describe(status)}"
    else:
        end = f"ended with {exit_status.describe(status)}"
        if reason in {None, "itself"}:
            end += _EXIT_HINTS.get(status, ": its own log says why")
    level = ERROR if reason is None else WARNING
    if well:
        level = WARNING if reason in {None, "itself"} else INFO
    text = f"{_label(node)} {end}, after {uptime:.1f} s; {_restart_clause(restart_in, down_reason)}"
    return EmitEvent(
        "swarm.node.died",
        level,
        text,
        {
            **_ids(node),
            "status": status,
            "signal": exit_status.signal_name(-status) if status < 0 else None,
            "uptime": uptime,
            "reason": reason,
            "rss": rss,
            "restart_in": restart_in,
        },
    )


def no_node_ready(number: int, seconds: float, limit: float) -> EmitEvent:
    text = (
        f"no node of {counted(number, 'node')} has been ready for {seconds:.1f} s; is Kafka reachable? Nodes are not "
        "restarted, because that would not help"
    )
    return make_event("swarm.not_ready", WARNING, text, nodes=number, seconds=seconds, limit=limit)


def waiting(
    now: float, awaited: Sequence[NodeState], all_: Sequence[NodeState], limits: Limits, rolling_deadline: float | None
) -> EmitEvent:
    """Returns the event that says for which nodes the swarm waits.

    `rolling_deadline`: when the rolling restart gives up; None: no rolling restart, or it waits for a node to stop.
    """
    texts = [
        f"node {node.id} ({node.phase}) for {now - wait_report.waiting_since(node):.1f} s: "
        f"{wait_report.wait_cause(now, node, all_, limits)}"
        for node in awaited
    ]
    left = None if rolling_deadline is None else rolling_deadline - now
    how_long = "" if left is None else f" (the rolling restart gives up in {left:.1f} s: not_ready_timeout)"
    more = f"; and {len(texts) - _MAX_NAMED} more" if len(texts) > _MAX_NAMED else ""
    text = f"waiting for {counted(len(texts), 'node')} of {len(all_)}{how_long}: {'; '.join(texts[:_MAX_NAMED])}{more}"
    seconds = max(now - wait_report.waiting_since(node) for node in awaited)
    return make_event(
        "swarm.waiting", INFO, text, nodes=[node.id for node in awaited], seconds=seconds, limit=left, causes=texts
    )


def supervisor_stalled(seconds: float) -> EmitEvent:
    text = (
        f"the supervisor was paused for up to {seconds:.1f} s (SIGSTOP or system suspend); report timeouts of the "
        "nodes are extended by that time"
    )
    return make_event("swarm.supervisor_stalled", WARNING, text, seconds=seconds)


def dump(asked: Sequence[int], skipped: Sequence[int]) -> EmitEvent:
    text = f"{format_nodes(asked)} write their stacks" if asked else "no node can write its stacks"
    if skipped:
        text += f"; skipped because they are starting or ending: {format_nodes(skipped)}"
    return make_event("swarm.dump", INFO, text, nodes=list(asked), skipped=list(skipped))


def restart_failed(
    level: int, reason: str, text: str, remaining: Sequence[int], blocking: Sequence[NodeState]
) -> EmitEvent:
    if remaining:
        text += f"; not replaced: {format_nodes(remaining)}"
    fields = {"reason": reason, "left": list(remaining), "blocking": [node.id for node in blocking]}
    return EmitEvent("swarm.restart_failed", level, text, fields)


def rolling_timeout_text(nodes: Sequence[NodeState], limit: float) -> str:
    """Returns why a rolling restart is aborted."""
    names = ", ".join(f"node {node.id} ({node.phase})" for node in nodes)
    return f"the rolling restart is aborted: it has waited {limit:g} s for {names} to be ready"


def format_nodes(numbers: Sequence[int]) -> str:
    """Formats node numbers: "nodes 1, 2"."""
    return f"{plural(len(numbers), 'node')} {', '.join(map(str, numbers))}"


def _ids(node: NodeState) -> dict[str, int | None]:
    return {"node": node.id, "pid": node.pid}


def _label(node: NodeState) -> str:
    return f"node {node.id} (pid {node.pid})"


def _restart_clause(restart_in: float | None, down_reason: str | None) -> str:
    if restart_in is None:
        return f"it stays down: {down_reason}"
    return f"it is forked again in {restart_in:g} s" if restart_in else "it is forked again now"


def _is_resource_error(error: OSError) -> bool:
    return error.errno in (errno.EAGAIN, errno.ENOMEM)
