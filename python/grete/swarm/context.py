"""What a node knows of the swarm that it is part of."""

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grete import _core

# What a node gets from its supervisor. These stay blocked from before the fork until the node's Runner handles them:
# one that comes earlier waits, so that it neither stops the process (TSTP, TTIN) nor ends it unasked (TERM).
HELD = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN})


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Handed to the Runner of a node."""

    id: int  # 0..nodes-1; a node that is started again has the same
    nodes: int
    pipe: int  # the write end, non-blocking: reports go there
    report_interval: float  # seconds
    supervisor: int  # its pid
    board: "_core.Board | None" = None  # metrics go there, if anybody wants to read them

    @property
    def name(self) -> str:
        """As logs and errors call it."""
        return f"node-{self.id}"


def release_signals() -> None:
    """Whoever handles signals in a node says so: what has been sent to it since its fork comes now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
