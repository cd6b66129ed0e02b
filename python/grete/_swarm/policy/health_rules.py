"""Health rules: the reasons for which a node is asked to stop. The first rule that matches wins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grete._swarm.policy.limits import GIL_SLACK, PIPE_CLOSED_GRACE, WEDGED_AFTER, WEDGED_MIN, Limits
from grete._swarm.policy.node_state import NodeState, Phase

if TYPE_CHECKING:
    from grete._swarm.node.report import Report


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """Broken rule of a node: the node has to be replaced."""

    reason: str
    text: str
    """Predicate for "node 2 (pid 4711)" in the log line."""
    fields: dict[str, Any] = field(default_factory=dict)


def check_report(report: "Report", limits: Limits, stalled: float) -> RuleViolation | None:
    """Returns the rule that a report breaks; None: no rule.

    `stalled`: seconds for which the supervisor was paused shortly before. The whole machine may have been paused then
    (system suspend, frozen container), so durations measured by the node may contain that time.
    """
    if limits.max_rss is not None and report.rss is not None and report.rss > limits.max_rss:
        return RuleViolation(
            "memory",
            f"has {_mib(report.rss)} of resident memory, and max_rss is {_mib(limits.max_rss)}",
            {"rss": report.rss, "max_rss": limits.max_rss},
        )
    # Before "handler": while one thread holds the GIL, handlers that merely wait for the GIL become overdue, too.
    held = report.gil_wait - stalled
    if held > limits.gil_timeout - GIL_SLACK:
        return RuleViolation(
            "gil",
            f"has had its GIL held for {report.gil_wait:.1f} s (gil_timeout {limits.gil_timeout:g} s): a call into C "
            "code does not release it",
            {"seconds": report.gil_wait, "limit": limits.gil_timeout} | _handler(report),
        )
    for job in report.overdue:
        seconds = job.seconds - stalled
        if seconds > job.limit:
            wedged = held > min(WEDGED_AFTER, max(WEDGED_MIN, seconds / 2))
            why = f"; no other thread has got the GIL for {report.gil_wait:.1f} s: it is in C code" if wedged else ""
            return RuleViolation(
                "gil" if wedged else "handler",
                f"runs {job.handler} on {job.topic}[{job.partition}] for {job.seconds:.1f} s, its handler_timeout is "
                f"{job.limit:g} s{why}",
                {
                    "seconds": job.seconds,
                    "limit": job.limit,
                    "handler": job.handler,
                    "topic": job.topic,
                    "partition": job.partition,
                },
            )
    return None


def _handler(report: "Report") -> dict[str, Any]:
    oldest = report.oldest
    if oldest is None:
        return {}
    return {"handler": oldest.handler, "topic": oldest.topic, "partition": oldest.partition}


class TimeoutRules:
    """Rules that depend on time, and the state of the whole swarm that they need."""

    def __init__(self, nodes: Sequence[NodeState], limits: Limits) -> None:
        self._nodes = nodes
        self._limits = limits
        self._any_ready_since: float | None = None
        self._none_ready_since: float | None = None
        self._none_ready_logged = False

    def on_phase_change(self, now: float) -> None:
        """Updates since when any node, or no node, has been ready. Called after phases may have changed."""
        if any(node.phase is Phase.READY for node in self._nodes):
            self._any_ready_since = now if self._any_ready_since is None else self._any_ready_since
            self._none_ready_since, self._none_ready_logged = None, False
        else:
            self._none_ready_since = now if self._none_ready_since is None else self._none_ready_since
            self._any_ready_since = None

    def extend_deadlines(self, gap: float) -> None:
        """Extends all deadlines by `gap` seconds, for which the supervisor was paused and could not read reports."""
        for node in self._nodes:
            node.silent_since += gap
            if node.not_ready_since is not None:
                node.not_ready_since += gap
            if node.pipe_closed_at is not None:
                node.pipe_closed_at += gap
        if self._any_ready_since is not None:
            self._any_ready_since += gap
        if self._none_ready_since is not None:
            self._none_ready_since += gap

    def check_timeouts(self, now: float, node: NodeState) -> RuleViolation | None:
        """Returns the rule whose time limit the node has exceeded; None: no rule."""
        if not node.phase.serving:
            return None
        if node.pipe_closed_at is not None and node.pipe_closed_at + PIPE_CLOSED_GRACE <= now:
            return RuleViolation("pipe", "has closed its report pipe and is still running")
        not_ready_deadline = self._not_ready_deadline(node)
        if not_ready_deadline is not None and not_ready_deadline <= now:
            seconds, limit = now - (node.not_ready_since or 0.0), self._limits.not_ready_timeout
            return RuleViolation(
                "membership",
                f"has not been a stable member of {_not_ready_groups(node)} for {seconds:.1f} s "
                f"(not_ready_timeout {limit:g} s)",
                {"seconds": seconds, "limit": limit},
            )
        if node.silent_since + self._limits.report_timeout <= now:
            seconds, limit = now - node.silent_since, self._limits.report_timeout
            return RuleViolation(
                "report", f"has not reported for {seconds:.1f} s", {"seconds": seconds, "limit": limit}
            )
        return None

    def none_ready_for(self, now: float) -> float | None:
        """Returns the seconds for which no node has been ready, once they exceed `not_ready_timeout`; else None.

        A call that returns a number counts as the warning: further calls return None until a node is ready again.
        """
        if (by := self._none_ready_deadline()) is None or by > now:
            return None
        self._none_ready_logged = True
        return now - (self._none_ready_since or 0.0)

    def node_deadlines(self, node: NodeState) -> list[float]:
        """Returns the times at which a rule for the node may be broken."""
        if not node.phase.serving:
            return []
        not_ready_deadline = self._not_ready_deadline(node)
        return [
            node.silent_since + self._limits.report_timeout,
            *([] if not_ready_deadline is None else [not_ready_deadline]),
            *([] if node.pipe_closed_at is None else [node.pipe_closed_at + PIPE_CLOSED_GRACE]),
        ]

    def deadline(self) -> float | None:
        """Returns when `none_ready_for` returns a number; None: no such time."""
        return self._none_ready_deadline()

    def _not_ready_deadline(self, node: NodeState) -> float | None:
        """Returns when the node breaks the rule "membership"; None: never, as no other node is ready, or as an ACL is
        missing, which no restart creates.

        While no node is ready, Kafka is the likely reason, and a new node would not help. The time counts from when
        other nodes *became* ready. When Kafka comes back, one node becomes ready first. The others have been not ready
        for as long as the first one, and are about to become ready, too.
        """
        since = node.not_ready_since
        if since is None or _is_unauthorized(node):
            return None
        if len(self._nodes) > 1:
            if self._any_ready_since is None:
                return None
            since = max(since, self._any_ready_since)
        return since + self._limits.not_ready_timeout

    def _none_ready_deadline(self) -> float | None:
        # A swarm's only node is asked to stop instead, which is logged as well.
        if self._none_ready_since is None or self._none_ready_logged or len(self._nodes) == 1:
            return None
        return self._none_ready_since + self._limits.not_ready_timeout


def _is_unauthorized(node: NodeState) -> bool:
    report = node.last_report
    return report is not None and any(group.authorization_failure and not group.ready for group in report.groups)


def _not_ready_groups(node: NodeState) -> str:
    report = node.last_report
    not_ready = [group for group in report.groups if not group.ready] if report is not None else []
    if not not_ready:
        return "its groups"
    return ", ".join(f'group "{group.group}" ({group.state})' for group in not_ready)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
