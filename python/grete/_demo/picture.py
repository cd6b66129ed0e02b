"""Picture of the running demo: everything that a view draws."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from grete._demo.claims import Claim, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grete._swarm.status.snapshot import NodeStatus

WINDOW = 2.0
"""Seconds over which rates are measured."""


class Counter:
    """Count with its rate over the last `WINDOW` seconds."""

    def __init__(self) -> None:
        self.count = 0
        self._past: deque[tuple[float, int]] = deque()

    def set(self, count: int) -> None:
        """Sets the count as of now."""
        now = time.monotonic()
        self.count = count
        self._past.append((now, count))
        # One older point stays: the window begins there.
        while len(self._past) > 2 and self._past[1][0] <= now - WINDOW:
            self._past.popleft()

    @property
    def rate(self) -> float:
        """Records per second; 0.0 until two counts are known."""
        if len(self._past) < 2:
            return 0.0
        (first, before), (last, after) = self._past[0], self._past[-1]
        return (after - before) / (last - first) if last > first else 0.0


@dataclass(slots=True)
class Picture:
    """State of the demo."""

    claims: list[Claim]
    started: float = field(default_factory=time.monotonic)
    """Start on the monotonic clock."""
    bootstrap_servers: str = ""
    """Address of the broker; "": it has not started."""
    written: Counter = field(default_factory=Counter)
    """Orders that the broker has acknowledged."""
    handled: Counter = field(default_factory=Counter)
    """Orders with at least one invoice."""
    nodes: "list[NodeStatus]" = field(default_factory=list)
    """Nodes as the supervisor reports them; empty before its first report."""
    notes: list[tuple[float, str]] = field(default_factory=list)
    """Happenings, with their times since the start."""

    stopped: bool = False
    """Whether the swarm has ended."""

    @property
    def lag(self) -> int:
        """Orders without an invoice."""
        return max(0, self.written.count - self.handled.count)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def note(self, text: str) -> None:
        """Notes what has happened just now, also as the detail of the claim that is running."""
        self.notes.append((self.elapsed, text))
        for claim in self.claims:
            if claim.result is Result.RUNNING:
                claim.detail = text

    def failed(self) -> list[Claim]:
        """Returns the claims that did not come true, also those for which nothing was tried."""
        return [claim for claim in self.claims if claim.result is not Result.TRUE]


class View(Protocol):
    """Terminal, or lines of text."""

    def draw(self, picture: Picture) -> None:
        """Shows the picture as it is now."""

    def close(self) -> None:
        """Gives the terminal back, with the last picture on it."""
