"""The rules of health: for which reason a node is asked to stop. First match wins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grete.swarm.facts import NodeFacts, Phase
from grete.swarm.limits import GIL_SLACK, HANG_UP_WAIT, WEDGED, WEDGED_LEAST, Limits

if TYPE_CHECKING:
    from grete.swarm.report import Report


@dataclass(frozen=True, slots=True)
class Verdict:
    """The node is to be replaced."""

    reason: str
    text: str
    """What "node 2 (pid 4711)" did."""
    fields: dict[str, Any] = field(default_factory=dict)


def judge(report: "Report", limits: Limits, away: float) -> Verdict | None:
    """What a report says against its node.

    `away`: seconds for which the supervisor did not run lately. Perhaps nothing ran then (a machine asleep, a frozen
    container): what a node has measured may contain that time.
    """
    if limits.max_rss is not None and report.rss is not None and report.rss > limits.max_rss:
        return Verdict(
            "memory",
            f"has {_mib(report.rss)} of resident memory, and max_rss is {_mib(limits.max_rss)}",
            {"rss": report.rss, "max_rss": limits.max_rss},
        )
    # Before "handler": where nobody gets the GIL, handlers that merely wait for it get overdue, too.
    held = report.gil_wait - away
    if held > limits.gil_timeout - GIL_SLACK:
        return Verdict(
            "gil",
            f"has had its GIL held for {report.gil_wait:.1f} s, {limits.gil_timeout:g} s are allowed: a call into C "
            "code does not give it back",
            {"seconds": report.gil_wait, "limit": limits.gil_timeout} | _handler(report),
        )
    for job in report.overdue:
        seconds = job.seconds - away
        if seconds > job.limit:
            wedged = held > min(WEDGED, max(WEDGED_LEAST, seconds / 2))
            why = f", and nobody there has got the GIL for {report.gil_wait:.1f} s: it is in C code" if wedged else ""
            return Verdict(
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


class Watch:
    """The rules that time brings about, and what they know of the swarm as a whole."""

    def __init__(self, nodes: Sequence[NodeFacts], limits: Limits) -> None:
        self._nodes = nodes
        self._limits = limits
        self._some_since: float | None = None
        self._none_since: float | None = None
        self._told = False

    def see(self, now: float) -> None:
        """Phases may have changed."""
        if any(node.phase is Phase.STEADY for node in self._nodes):
            self._some_since = now if self._some_since is None else self._some_since
            self._none_since, self._told = None, False
        else:
            self._none_since = now if self._none_since is None else self._none_since
            self._some_since = None

    def excuse(self, gap: float) -> None:
        """The supervisor did not run for that long: what it did not hear then says nothing."""
        for node in self._nodes:
            node.heard_at += gap
            if node.unsteady_since is not None:
                node.unsteady_since += gap
            if node.pipe_lost_at is not None:
                node.pipe_lost_at += gap
        if self._some_since is not None:
            self._some_since += gap
        if self._none_since is not None:
            self._none_since += gap

    def judge(self, now: float, node: NodeFacts) -> Verdict | None:
        """What time says against the node."""
        if not node.phase.serving:
            return None
        if node.pipe_lost_at is not None and node.pipe_lost_at + HANG_UP_WAIT <= now:
            return Verdict("pipe", "has closed the pipe of its reports and lives on")
        unsteady_by = self._unsteady_by(node)
        if unsteady_by is not None and unsteady_by <= now:
            seconds, limit = now - (node.unsteady_since or 0.0), self._limits.unsteady_timeout
            return Verdict(
                "membership",
                f"has been without its place in {_groups(node)} for {seconds:.1f} s, {limit:g} s are allowed",
                {"seconds": seconds, "limit": limit},
            )
        if node.heard_at + self._limits.report_timeout <= now:
            seconds, limit = now - node.heard_at, self._limits.report_timeout
            return Verdict("report", f"has not reported for {seconds:.1f} s", {"seconds": seconds, "limit": limit})
        return None

    def nobody(self, now: float) -> float | None:
        """For how long no node has been steady, once that is too long to be kept quiet about."""
        if (by := self._nobody_by()) is None or by > now:
            return None
        self._told = True
        return now - (self._none_since or 0.0)

    def deadlines(self, node: NodeFacts) -> list[float]:
        """When time may say something against the node."""
        if not node.phase.serving:
            return []
        unsteady_by = self._unsteady_by(node)
        return [
            node.heard_at + self._limits.report_timeout,
            *([] if unsteady_by is None else [unsteady_by]),
            *([] if node.pipe_lost_at is None else [node.pipe_lost_at + HANG_UP_WAIT]),
        ]

    def deadline(self) -> float | None:
        """When it is to be told that no node is steady."""
        return self._nobody_by()

    def _unsteady_by(self, node: NodeFacts) -> float | None:
        """Only while others do better: where no node is steady, Kafka is the likely reason, and a new node no cure.

        The time counts from when others *got* steady. When Kafka comes back, one node is the first to be well again,
        and the others, unsteady for as long, are about to be.
        """
        since = node.unsteady_since
        if since is None:
            return None
        if len(self._nodes) > 1:
            if self._some_since is None:
                return None
            since = max(since, self._some_since)
        return since + self._limits.unsteady_timeout

    def _nobody_by(self) -> float | None:
        # The only node is asked to stop instead, which is told as well.
        if self._none_since is None or self._told or len(self._nodes) == 1:
            return None
        return self._none_since + self._limits.unsteady_timeout


def _groups(node: NodeFacts) -> str:
    report = node.last_report
    unsteady = [group for group in report.groups if not group.steady] if report is not None else []
    if not unsteady:
        return "its groups"
    return ", ".join(f'group "{group.group}" ({group.state})' for group in unsteady)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
