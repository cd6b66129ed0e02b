"""What a forked node closes of what its supervisor had open."""

import contextlib
import os
from collections.abc import Callable, Iterable


class Inherited:
    """Knows all descriptors of the supervisor that would do harm in a node.

    A read end of another node's pipe keeps that node from noticing that nobody listens; a pidfd and an epoll pin what
    they watch; a listening socket takes connections that nobody answers; a wake-up pipe wakes the wrong process.
    """

    def __init__(self) -> None:
        self._sources: list[Callable[[], Iterable[int]]] = []

    def add(self, source: Callable[[], Iterable[int]]) -> None:
        """`source` is asked at each fork, in the child."""
        self._sources.append(source)

    def close(self) -> None:
        """In the child. By number: the objects stay as they are, and live as long as the frames below the child's."""
        for fd in {fd for source in self._sources for fd in source()}:
            with contextlib.suppress(OSError):
                os.close(fd)
