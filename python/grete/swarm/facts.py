"""What is known of one node."""

from dataclasses import dataclass
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
    pid: int | None = None
    """None when there is no process."""
    forked_at: float | None = None
    """When the process began, None when there is none."""
    restarts: int = 0
    """Lives after the first."""
    deaths: int = 0
    last_death: str | None = None
    """"killed by SIGSEGV", "exit 1"."""
    why_stopping: str | None = None
    """The reason of the stop that is under way: see `grete.swarm.events`."""
    next_at: float | None = None
    """BACKOFF: when the next life begins."""
    term_at: float | None = None
    """STOPPING: when TERM comes, if it is still to come."""
    kill_at: float | None = None
    """STOPPING: when KILL comes, unless TERM is still to come. KILLED: when it was due."""
    last_report: "Report | None" = None
    """Of this life, or of the last one when there is no process."""
    last_report_at: float | None = None
    steady_since: float | None = None
    """Since when it is steady, None when it is not."""
    streak: int = 0
    """Short lives in a row."""
    looping: bool = False
    """Whether these are a crash loop."""

    def enter(self, phase: Phase, now: float) -> None:
        """Begins a phase."""
        self.phase = phase
        self.since = now
