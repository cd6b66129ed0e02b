"""A rolling restart: each node that lives is replaced, one after the other."""

from collections.abc import Iterable, Sequence

from grete.swarm.facts import NodeFacts, Phase


class Rolling:
    """Which node goes next. A node goes when all others are steady: at most one is away by it.

    What it waits for has `limit` seconds for each step. A node that dies in between has been replaced by that.
    """

    def __init__(self, now: float, nodes: Sequence[NodeFacts], limit: float) -> None:
        self._nodes = nodes
        self._limit = limit
        self._left: list[int] = []
        self._until = now
        self._current: int | None = None
        self._away = False
        self.since = now
        self.replaced = 0
        self.again(now)

    def again(self, now: float) -> None:
        """All that live now, once more. The one that is on its way out is replaced after now anyway."""
        self._left = [node.id for node in self._nodes if node.phase.alive and not self._is_away(node.id)]
        if not self._away:
            self._current = None
        self._until = now + self._limit

    @property
    def left(self) -> Sequence[int]:
        """The nodes that are still to be replaced."""
        return self._left

    def next(self, now: float) -> NodeFacts | None:
        """The node that is to go now."""
        if not self._may_go_on():
            return None
        if self._current is not None:
            self._current = None
            self._until = now + self._limit
        node = self._candidate()
        if node is not None:
            self._left.remove(node.id)
            self._current, self._away = node.id, True
        return node

    @property
    def ready(self) -> bool:
        """Whether it can go on: with the next node, or to its end."""
        return self._may_go_on() and (not self._left or self._candidate() is not None)

    def _may_go_on(self) -> bool:
        """Whether the last one is back."""
        return not self._away and (self._current is None or self._nodes[self._current].phase is Phase.STEADY)

    def _candidate(self) -> NodeFacts | None:
        for node in map(self._nodes.__getitem__, self._left):
            if node.phase.serving and all(other.phase is Phase.STEADY for other in self._others(node)):
                return node
        return None

    def died(self, now: float, node: NodeFacts) -> bool:
        """Returns whether its next life begins at once."""
        if self._is_away(node.id):
            self._away = False
            self._until = now + self._limit
            self.replaced += 1
            return True
        if node.id in self._left:
            self._left.remove(node.id)
            self.replaced += 1
        return False

    @property
    def over(self) -> bool:
        """Whether all have been replaced, and the last one is steady."""
        return self._current is None and not self._left

    def blocking(self, now: float) -> list[NodeFacts]:
        """What it has waited for in vain; nothing while there is time."""
        if (deadline := self.deadline()) is None or deadline > now:
            return []
        return [node for node in self._nodes if node.phase is not Phase.STEADY]

    def deadline(self) -> float | None:
        """When waiting for others to be steady is over. That a node goes has the limits of its stop."""
        return None if self._away else self._until

    def excuse(self, gap: float) -> None:
        """The supervisor did not run for that long."""
        self._until += gap

    def _is_away(self, number: int) -> bool:
        return self._away and self._current == number

    def _others(self, node: NodeFacts) -> Iterable[NodeFacts]:
        return (other for other in self._nodes if other is not node)
