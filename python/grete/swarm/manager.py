"""What to do with which node, and when: facts in, actions out. No clock, no process, nothing random.

Skeleton: the first rules are here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grete.swarm.actions import Action, Exit, Fork
from grete.swarm.facts import NodeFacts, Phase
from grete.swarm.limits import Limits

if TYPE_CHECKING:
    from grete.swarm.report import Report

__all__ = ["Manager", "NodeFacts", "Phase"]


class Manager:
    """Decides for all nodes of a swarm.

    The contract of whoever drives it: `now` is seconds of one monotonic clock. After waking up, tell first what the
    pipes said, then deaths, then what users want; then `due(now)`; then do what `take()` returns, tell `forked` or
    `fork_failed` of each Fork, and take again until nothing is left. Then sleep until `deadline()` at most.
    What comes from a pipe names the process it came from (`pid`): a report of an earlier life does no harm then.
    """

    def __init__(self, nodes: int, limits: Limits) -> None:
        self.nodes: Sequence[NodeFacts] = [NodeFacts(number) for number in range(nodes)]
        self.actions: list[Action] = []
        self.exit_status: int | None = None
        self._limits = limits
        self._stopping = False

    def take(self) -> list[Action]:
        """What is to be done now. Nothing is said twice."""
        actions, self.actions = self.actions, []
        return actions

    def start(self, now: float) -> None:
        """Forks all nodes."""
        for node in self.nodes:
            self._fork(now, node)

    def forked(self, now: float, node: int, pid: int) -> None:
        """A Fork has been done."""
        facts = self.nodes[node]
        facts.pid, facts.forked_at = pid, now
        facts.enter(Phase.STARTING, now)

    def fork_failed(self, now: float, node: int, error: OSError) -> None:  # noqa: ARG002
        """A Fork could not be done."""
        self._fell(now, self.nodes[node])

    def reported(self, now: float, node: int, report: "Report", pid: int | None = None) -> None:  # noqa: ARG002
        """A report has come."""
        facts = self.nodes[node]
        facts.last_report, facts.last_report_at = report, now

    def garbled(self, now: float, node: int, text: str, pid: int | None = None) -> None:  # noqa: ARG002
        """The node's pipe brought what is no report; nothing will be read from it any more."""

    def hung_up(self, now: float, node: int, pid: int | None = None) -> None:  # noqa: ARG002
        """The node has closed its pipe."""

    def died(self, now: float, node: int, status: int) -> None:  # noqa: ARG002
        """The node was reaped. `status`: exit code, or -signal."""
        facts = self.nodes[node]
        facts.pid = facts.forked_at = None
        facts.deaths += 1
        self._fell(now, facts)

    def stop(self, now: float) -> None:  # noqa: ARG002
        """SIGINT, SIGTERM: all nodes stop, and then the swarm."""
        self._stopping = True
        if not any(node.phase.alive for node in self.nodes):
            self.exit_status = 0
            self.actions.append(Exit(0))

    def hurry(self, now: float) -> None:
        """The second SIGINT: handlers are not waited for any more."""

    def quiet(self, now: float) -> None:
        """SIGTSTP: what runs goes on, no more records are handed out, and no node is started any more."""

    def restart(self, now: float) -> None:
        """SIGHUP: each node that lives now is replaced, one after the other."""

    def dump(self, now: float) -> None:
        """SIGTTIN: all nodes write their stacks."""

    def due(self, now: float) -> None:
        """Time has passed. After it, `deadline()` is later than `now`."""
        for node in self.nodes:
            if node.phase is Phase.BACKOFF and node.next_at is not None and node.next_at <= now:
                self._fork(now, node)

    def deadline(self) -> float | None:
        """When `due` is to be called next, None when nothing but news can change anything."""
        return min((node.next_at for node in self.nodes if node.next_at is not None), default=None)

    def _fork(self, now: float, node: NodeFacts) -> None:
        node.next_at = None
        node.enter(Phase.FORKING, now)
        self.actions.append(Fork(node.id))

    def _fell(self, now: float, node: NodeFacts) -> None:
        if self._stopping:
            node.enter(Phase.DOWN, now)
            if not any(other.phase.alive for other in self.nodes):
                self.exit_status = 0
                self.actions.append(Exit(0))
            return
        node.streak += 1
        backoff = self._limits.backoff_first * 2.0 ** min(node.streak - 1, 64)
        node.next_at = now + min(backoff, self._limits.backoff_cap)
        node.enter(Phase.BACKOFF, now)
