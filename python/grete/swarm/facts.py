"""What is known of one node."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grete.swarm.report import Report


class Phase(StrEnum):
    """Where a node is in its life."""

    FORKING = "forking"  # a Fork was asked for, and nobody has told yet what came of it
    STARTING = "starting"  # alive, and not steady yet in this life
    STEADY = "steady"  # its last report says that it has its place in its groups
    UNSTEADY = "unsteady"  # it had, and has not now
    STOPPING = "stopping"  # asked to stop (or about to be: its stacks are dumped first), or stops by itself
    KILLED = "killed"  # KILL was sent
    BACKOFF = "backoff"  # dead; the next life begins at `next_at`
    DOWN = "down"  # dead, and stays so

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self in _ALIVE

    @property
    def serving(self) -> bool:
        """Whether there is a process that nobody has asked to go."""
        return self in _SERVING


_SERVING = frozenset({Phase.STARTING, Phase.STEADY, Phase.UNSTEADY})
_ALIVE = _SERVING | {Phase.STOPPING, Phase.KILLED}


@dataclass(slots=True)
class NodeFacts:
    """One node. The Manager writes it, all others read. Times are seconds of the supervisor's monotonic clock."""

    id: int
    phase: Phase = Phase.DOWN
    since: float = 0.0
    """When the phase began."""
    restarts: int = 0
    """Lives after the first."""
    deaths: int = 0
    deaths_by_reason: Counter[str] = field(default_factory=Counter)
    """By `exits.reason`."""
    last_death: str | None = None
    """As in "killed by SIGSEGV", "exit 1", "not forked: Resource temporarily unavailable"."""

    # Of the process that there is
    pid: int | None = None
    """None when there is no process."""
    forked_at: float | None = None
    last_report: "Report | None" = None
    """Of this life; of the last one when there is no process."""
    last_report_at: float | None = None
    heard_at: float = 0.0
    """From when its silence counts: the last report, the fork, or when the supervisor itself came back."""
    steady_since: float | None = None
    """Since when it is steady, None when it is not."""
    first_steady: float | None = None
    """When it got steady for the first time in this life."""
    unsteady_since: float | None = None
    """Since when it is alive and not steady."""
    pipe_lost_at: float | None = None
    """When its pipe was hung up."""
    quiet_sent: bool = False
    """Whether its process was told to be quiet; its last one, then."""

    # Of the stop that is under way
    why_stopping: str | None = None
    """The reason, see `swarm.node.stopping` in `grete.instrumentation.events`; None when no stop is under way."""
    term_at: float | None = None
    """When TERM comes, if it is still to come."""
    term_sent_at: float | None = None
    """When TERM was sent."""
    kill_at: float | None = None
    """When KILL comes, or was due."""
    late: bool = False
    """Whether it was told that this process outlives KILL."""

    # Between lives
    next_at: float | None = None
    """BACKOFF: when the next life begins."""
    attempt: int = 0
    """Restarts after a backoff since the node was well."""
    streak: int = 0
    """Short lives in a row."""
    looping: bool = False
    """Whether these are a crash loop."""

    def enter(self, phase: Phase, now: float) -> None:
        """Begins a phase."""
        self.phase = phase
        self.since = now
