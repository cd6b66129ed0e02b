"""Where nodes post their metrics, for the supervisor to read at any time without asking them."""

import contextlib

from grete import _core
from grete.errors import GreteError


class Boards:
    """One for each process that there is: what a dead one posted goes with it, and its successor begins with nothing.

    A board is made just before its node is forked, and kept from the nodes that are forked after it.
    """

    def __init__(self) -> None:
        self._boards: dict[int, _core.Board] = {}

    def make(self, node: int) -> None:
        """Before the node is forked. Where there is no memory for it, the node lives all the same, without metrics."""
        self.drop(node)
        with contextlib.suppress(GreteError):
            self._boards[node] = _core.Board()

    def keep(self, node: int) -> None:
        """After the fork, in the supervisor; and in the node, of its own board: its own children are no nodes."""
        if (board := self.of(node)) is not None:
            board.keep()

    def drop(self, node: int) -> None:
        """The node's process is gone."""
        self._boards.pop(node, None)

    def of(self, node: int) -> _core.Board | None:
        """The board of the node's process; None: it has none."""
        return self._boards.get(node)
