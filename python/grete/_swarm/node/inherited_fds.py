"""Closes the supervisor's descriptors in a forked child."""

import contextlib
import os
from collections.abc import Callable, Iterable


class InheritedFds:
    """Registry of all descriptors of the supervisor that would do harm in a node.

    The read end of another node's pipe keeps that node from noticing that its supervisor has died. A pidfd or an epoll
    keeps alive what it watches. A listening socket accepts connections that no process answers. A wake-up pipe wakes
    the wrong process.
    """

    def __init__(self) -> None:
        self._sources: list[Callable[[], Iterable[int]]] = []

    def add(self, source: Callable[[], Iterable[int]]) -> None:
        """Adds a function that is called at each fork, in the child."""
        self._sources.append(source)

    def close(self) -> None:
        """Closes all descriptors, in the child, once.

        By number: the objects stay as they are, and live as long as the frames below the child's.
        """
        sources, self._sources = self._sources, []
        for fd in {fd for source in sources for fd in source()}:
            with contextlib.suppress(OSError):
                os.close(fd)

    def leave_to_parent(self) -> None:
        """Closes all descriptors in a child that is no node: one that an event listener of the supervisor forked."""
        self.close()
