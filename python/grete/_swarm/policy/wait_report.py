"""Texts that say what the nodes of a swarm wait for, and the schedule on which they are logged."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grete._swarm.policy.limits import Limits
from grete._swarm.policy.node_state import NodeState, Phase

if TYPE_CHECKING:
    from grete._swarm.node.report import GroupMembership

FIRST_REPORT_AFTER = 5.0
"""Seconds for which a node may wait before its wait is logged: most rebalances are shorter."""
REPEAT_REPORT_AFTER = 15.0
"""Seconds until a wait that goes on is logged again."""
_SESSION = "session.timeout.ms, or group.consumer.session.timeout.ms of the brokers"


class WaitReporter:
    """Schedule of `swarm.waiting`: after `FIRST_REPORT_AFTER`, then every `REPEAT_REPORT_AFTER`, for all nodes."""

    def __init__(self, nodes: Sequence[NodeState], limits: Limits) -> None:
        self._nodes = nodes
        self._limits = limits
        self._reported_at = -math.inf

    def poll(self, now: float, rolling: bool) -> list[NodeState]:
        """Returns the nodes to log now; an empty list: none. `rolling`: a rolling restart waits for all nodes."""
        if (deadline := self.deadline(rolling)) is None or deadline > now:
            return []
        self._reported_at = now
        return self._waiting(rolling)

    def deadline(self, rolling: bool) -> float | None:
        """Returns when `poll` returns nodes; None: no node waits."""
        since = min((waiting_since(node) for node in self._waiting(rolling)), default=None)
        return None if since is None else max(since + FIRST_REPORT_AFTER, self._reported_at + REPEAT_REPORT_AFTER)

    def _waiting(self, rolling: bool) -> list[NodeState]:
        return [node for node in self._nodes if node.phase is not Phase.READY and (rolling or node.phase.serving)]


def waiting_since(node: NodeState) -> float:
    """Returns when the node began to wait, on the supervisor's clock."""
    return node.not_ready_since if node.phase.serving and node.not_ready_since is not None else node.since


def wait_cause(now: float, node: NodeState, nodes: Sequence[NodeState], limits: Limits) -> str:
    """Returns what the node waits for and until when, as far as the supervisor knows; "" for a ready node."""
    match node.phase:
        case Phase.READY:
            return ""
        case Phase.FORKING:
            return "its process is being forked"
        case Phase.BACKOFF:
            return f"it is forked again in {max(0.0, (node.next_at or now) - now):.1f} s (restart_backoff)"
        case Phase.DOWN:
            return "it stays down"
        case Phase.STOPPING if node.kill_at is not None:
            left = max(0.0, node.kill_at - now)
            return f"it finishes what it runs and commits, for {left:.1f} s more at most (shutdown_timeout)"
        case Phase.STOPPING:
            return "its stacks are written before it is asked to stop"
        case Phase.KILLED:
            return "the kernel has not ended it yet after SIGKILL"
    report = node.last_report
    if report is None:
        return f"it has not reported yet; {limits.report_timeout:g} s at most (report_timeout)"
    not_ready = [group for group in report.groups if not group.ready]
    if not not_ready:
        return "its workers start"
    return "; ".join(
        f'group "{group.group}" is {group.state}: {_group_wait_cause(now, group, nodes, limits)}'
        for group in not_ready[:3]
    )


def _group_wait_cause(now: float, group: "GroupMembership", nodes: Sequence[NodeState], limits: Limits) -> str:
    session = f"{limits.session_timeout:g} s at most ({_SESSION})"
    work = f"{limits.rebalance_timeout:g} s at most (max.poll.interval.ms)"
    failure = group.login_failure or group.authorization_failure
    if failure is not None:
        return failure
    if group.connections == 0:
        return "no broker is connected"
    match group.state:
        case "unjoined" | "rebalancing":
            return "it looks up the group's coordinator, or waits to ask again to join"
        case "revoking":
            return f"handlers still run on partitions that were revoked, {work}"
        case "joining":
            stale_members = _stale_members(now, nodes, limits)
            if stale_members:
                return f"the coordinator waits for {stale_members}"
            return (
                "it has asked to join, and the coordinator may wait for other members: for a dead one "
                f"{session}, for one whose handlers run {work}"
            )
        case "assigning":
            return "it leads the group and asks brokers which partitions exist"
        case "syncing":
            return f"it has joined, and the group's leader has not assigned the partitions yet, {session}"
        case "stable":
            return f"handlers still run on partitions that change their owner, {work}"
    return "it is not a member"


def _stale_members(now: float, nodes: Sequence[NodeState], limits: Limits) -> str:
    """Returns the members of dead processes that the group still keeps, and for how long, as text; "": none."""
    kept = [
        (node, node.stale_member_since + limits.stale_member_timeout)
        for node in nodes
        if node.stale_member_since is not None
    ]
    return ", ".join(
        f"the member of process {node.stale_member_pid} (node {node.id}), which died without leaving: it is held for "
        f"{until - now:.1f} s more at most ({_SESSION})"
        for node, until in kept
        if until > now
    )
