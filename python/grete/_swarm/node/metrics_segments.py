"""Shared memory in which nodes publish their metrics, so that the supervisor reads them without asking the nodes."""

import contextlib

from grete import _native
from grete.errors import GreteError


class MetricsSegments:
    """One segment per node process: it vanishes with the process, and the next process begins with an empty one.

    A segment is created just before its node is forked, and hidden from the nodes that are forked after it.
    """

    def __init__(self) -> None:
        self._segments: dict[int, _native.SharedText] = {}

    def create(self, node: int) -> None:
        """Creates the segment before the fork. Without memory for it, the node runs without metrics."""
        self.remove(node)
        with contextlib.suppress(GreteError):
            self._segments[node] = _native.SharedText()

    def keep(self, node: int) -> None:
        """Hides the segment from later forks: in the supervisor after the fork, and in the node, whose children are no
        nodes.
        """
        if (board := self.get(node)) is not None:
            board.exclude_from_later_forks()

    def remove(self, node: int) -> None:
        """Removes the segment of a process that has ended."""
        self._segments.pop(node, None)

    def get(self, node: int) -> _native.SharedText | None:
        """Returns the segment of the node's process; None: no segment."""
        return self._segments.get(node)
