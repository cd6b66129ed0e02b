"""What the supervisor's one epoll waits for besides its nodes: the control socket, the probes."""

from collections.abc import Sequence
from typing import Protocol


class Pollable(Protocol):
    """All calls come from the supervisor's one thread, and none may block or raise."""

    @property
    def fd(self) -> int:
        """Readable when something is to be done. Stays the same: whoever has several makes an epoll of its own."""
        ...

    def ready(self, fd: int, mask: int) -> None:
        """`fd` is readable, or the deadline has passed (mask 0). May be called in vain."""
        ...

    def deadline(self) -> float | None:
        """When `ready` wants to be called at the latest, by `time.monotonic`. Each one is a wake-up."""
        ...

    def fds(self) -> Sequence[int]:
        """All that a forked child closes, by number. Its objects live on in the child, untouched."""
        ...
