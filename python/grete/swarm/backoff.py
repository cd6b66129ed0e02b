"""When a node that has died lives again, and when its deaths are a crash loop."""

from grete.swarm.facts import NodeFacts
from grete.swarm.limits import Limits

# Reasons of a stop that say nothing against the App: what Kafka does, and what users ask for.
_NO_FAULT = frozenset({"membership", "restart"})


class Backoff:
    """Doubles from `backoff_first` to `backoff_cap` with each life that ended before the node was well again."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def recovered(self, now: float, node: NodeFacts) -> bool:
        """Whether the node has lived for long enough since it got steady."""
        return node.first_steady is not None and now - node.first_steady >= self._limits.steady_after

    def forget(self, node: NodeFacts) -> None:
        """The node is well: what was before counts no more."""
        node.attempt = node.streak = 0
        node.looping = False

    def count(self, now: float, node: NodeFacts, reason: str | None) -> bool:
        """A life has ended, or was none. Returns whether a crash loop begins with it."""
        if self.recovered(now, node):
            self.forget(node)
        elif reason not in _NO_FAULT:
            node.streak += 1
        begins = node.streak >= self._limits.crash_loop_after and not node.looping
        node.looping = node.looping or begins
        return begins

    def delay(self, node: NodeFacts) -> float:
        """Seconds until the next life."""
        # Beyond 2 ** 64 no first backoff is below its cap, and floats end somewhere.
        delay = min(self._limits.backoff_first * 2.0 ** min(node.attempt, 64), self._limits.backoff_cap)
        node.attempt += 1
        return delay
