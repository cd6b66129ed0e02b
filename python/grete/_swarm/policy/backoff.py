"""Restart delays of nodes, and detection of crash loops."""

from grete._swarm.policy.limits import Limits
from grete._swarm.policy.node_state import NodeState

# Stop reasons that are no fault of the App: Kafka's state, and requests of users.
_BENIGN_REASONS = frozenset({"membership", "restart"})


class Backoff:
    """Backoff from `backoff_first` to `backoff_cap`, doubled with each process that died before it had recovered.

    The process after one that had recovered is forked without a delay: its partitions wait, and nothing says that it
    would die as well.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def is_recovered(self, now: float, node: NodeState) -> bool:
        """Returns whether the node has lived long enough since it became ready."""
        return node.first_ready_at is not None and now - node.first_ready_at >= self._limits.ready_after

    def reset(self, node: NodeState) -> None:
        """Forgets earlier deaths, because the node has recovered."""
        node.backoff_attempts = node.short_lives = 0
        node.looping = False

    def record_exit(self, now: float, node: NodeState, reason: str | None) -> bool:
        """Counts a death, or a failed fork. Returns whether a crash loop begins with it."""
        node.had_recovered = self.is_recovered(now, node)
        if node.had_recovered:
            self.reset(node)
        elif reason not in _BENIGN_REASONS:
            node.short_lives += 1
        begins = node.short_lives >= self._limits.crash_loop_after and not node.looping
        node.looping = node.looping or begins
        return begins

    def next_delay(self, node: NodeState) -> float:
        """Returns the seconds until the next fork, and counts the attempt. 0: the process before had recovered."""
        if node.had_recovered:
            return 0.0
        # At 2 ** 64 the first backoff has reached its cap, whatever it is; larger exponents would overflow a float.
        delay = min(self._limits.backoff_first * 2.0 ** min(node.backoff_attempts, 64), self._limits.backoff_cap)
        node.backoff_attempts += 1
        return delay
