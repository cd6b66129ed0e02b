"""State machine for a rolling restart: each living node is replaced, one after the other."""

from collections.abc import Iterable, Sequence

from grete._swarm.policy.node_state import NodeState, Phase


class RollingRestart:
    """Decides which node is replaced next: a node goes only while all others are ready, so that one at most is away.

    Each wait for the other nodes is limited to `limit` seconds. A node that dies meanwhile counts as replaced.
    """

    def __init__(self, now: float, nodes: Sequence[NodeState], limit: float) -> None:
        self._nodes = nodes
        self._limit = limit
        self._remaining: list[int] = []
        self._step_deadline = now
        self._current: int | None = None
        self._current_is_exiting = False
        self.since = now
        self.replaced = 0
        self.restart_over(now)

    def restart_over(self, now: float) -> None:
        """Replaces all living nodes once more. The node that is stopping just now will be new anyway."""
        self._remaining = [node.id for node in self._nodes if node.phase.alive and not self._is_exiting(node.id)]
        if not self._current_is_exiting:
            self._current = None
        self._step_deadline = now + self._limit

    @property
    def remaining(self) -> Sequence[int]:
        """Numbers of the nodes that have not been replaced yet."""
        return self._remaining

    def next_node(self, now: float) -> NodeState | None:
        """Returns the node that has to stop now; None: no node."""
        if not self._is_last_back():
            return None
        if self._current is not None:
            self._current = None
            self._step_deadline = now + self._limit
        node = self._candidate()
        if node is not None:
            self._remaining.remove(node.id)
            self._current, self._current_is_exiting = node.id, True
        return node

    @property
    def can_advance(self) -> bool:
        """Whether the restart can go on: with the next node, or to its end."""
        return self._is_last_back() and (not self._remaining or self._candidate() is not None)

    def _is_last_back(self) -> bool:
        """Whether the node that was replaced last is ready again."""
        return not self._current_is_exiting and (
            self._current is None or self._nodes[self._current].phase is Phase.READY
        )

    def _candidate(self) -> NodeState | None:
        for node in map(self._nodes.__getitem__, self._remaining):
            if node.phase.serving and all(other.phase is Phase.READY for other in self._others(node)):
                return node
        return None

    def on_exited(self, now: float, node: NodeState) -> bool:
        """Handles a death. Returns whether the node is forked again at once."""
        if self._is_exiting(node.id):
            self._current_is_exiting = False
            self._step_deadline = now + self._limit
            self.replaced += 1
            return True
        if node.id in self._remaining:
            self._remaining.remove(node.id)
            self.replaced += 1
        return False

    @property
    def is_done(self) -> bool:
        """Whether all nodes have been replaced, and the last one is ready."""
        return self._current is None and not self._remaining

    def not_ready_nodes(self, now: float) -> list[NodeState]:
        """Returns the nodes that are not ready when the time limit has passed; before that, an empty list."""
        if (deadline := self.deadline()) is None or deadline > now:
            return []
        return [node for node in self._nodes if node.phase is not Phase.READY]

    def deadline(self) -> float | None:
        """Returns when the wait for the other nodes ends; None while a node stops, which has its own time limits."""
        return None if self._current_is_exiting else self._step_deadline

    def extend_deadlines(self, gap: float) -> None:
        """Extends the deadline by `gap` seconds, for which the supervisor was paused."""
        self._step_deadline += gap

    def _is_exiting(self, number: int) -> bool:
        return self._current_is_exiting and self._current == number

    def _others(self, node: NodeState) -> Iterable[NodeState]:
        return (other for other in self._nodes if other is not node)
