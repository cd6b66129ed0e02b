"""State of one node, as the supervisor knows it."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grete._swarm.node.report import Report


class Phase(StrEnum):
    """Phase of a node."""

    FORKING = "forking"  # a Fork was requested, and its result is not known yet
    STARTING = "starting"  # the process lives, and has not been ready yet
    READY = "ready"  # its last report says that it is a stable member of its groups
    NOT_READY = "not_ready"  # was ready, and is not ready now
    STOPPING = "stopping"  # asked to stop (or about to be: its stacks are dumped first), or stops by itself
    KILLED = "killed"  # SIGKILL was sent
    BACKOFF = "backoff"  # dead; the next process is forked at `next_at`
    DOWN = "down"  # dead, and not started again

    @property
    def alive(self) -> bool:
        """Whether a process exists."""
        return self in _ALIVE

    @property
    def serving(self) -> bool:
        """Whether a process exists that was not asked to stop."""
        return self in _SERVING


_SERVING = frozenset({Phase.STARTING, Phase.READY, Phase.NOT_READY})
_ALIVE = _SERVING | {Phase.STOPPING, Phase.KILLED}


@dataclass(slots=True)
class NodeState:
    """State of one node. Only the Manager writes it. Times are seconds of the supervisor's monotonic clock."""

    id: int
    phase: Phase = Phase.DOWN
    since: float = 0.0
    """When the phase began."""
    restarts: int = 0
    """Number of processes after the first."""
    deaths: int = 0
    deaths_by_reason: Counter[str] = field(default_factory=Counter)
    """Deaths by `exit_status.exit_reason`."""
    last_death: str | None = None
    """Description of the last death: "killed by SIGSEGV", "exit 1: cannot log in ...", "not forked: Resource
    temporarily unavailable".
    """

    # Current process
    pid: int | None = None
    """None: no process."""
    forked_at: float | None = None
    last_error: str | None = None
    """Error that ends the process; None: none that is known."""
    last_report: "Report | None" = None
    """Last report of the current process, or of the last one if there is none; None: no report yet."""
    last_report_at: float | None = None
    silent_since: float = 0.0
    """Start of the node's silence: its last report, its fork, or the end of a pause of the supervisor."""
    ready_since: float | None = None
    """Since when the node has been ready; None: not ready."""
    first_ready_at: float | None = None
    """When the current process became ready for the first time; None: not yet."""
    not_ready_since: float | None = None
    """Since when the process has been alive and not ready; None: ready, or no process."""
    pipe_closed_at: float | None = None
    """When its pipe was closed; None: open."""
    quiet_sent: bool = False
    """Whether the current process, or the last one, was asked to be quiet."""

    # Last process
    stale_member_pid: int | None = None
    """Pid of the last process if it died without leaving its groups; None: it left them."""
    stale_member_since: float | None = None
    """When that process died; None: it left its groups, or no process has died."""

    # Stop under way
    stop_reason: str | None = None
    """Reason, see `swarm.node.stopping` in `grete.instrumentation.events`; None: no stop is under way."""
    term_at: float | None = None
    """When TERM is due; None: already sent, or no stop."""
    term_sent_at: float | None = None
    """When TERM was sent; None: not sent."""
    kill_at: float | None = None
    """When KILL is due, or was due; None: no KILL is scheduled."""
    unkillable_logged: bool = False
    """Whether it was logged that this process outlives KILL."""

    # Between two processes
    next_at: float | None = None
    """BACKOFF: when the next process is forked; None in other phases."""
    had_recovered: bool = False
    """Whether the last process died after it had recovered; False for a failed fork."""
    backoff_attempts: int = 0
    """Restarts after a backoff since the node last recovered."""
    short_lives: int = 0
    """Processes in a row that died before they had recovered."""
    looping: bool = False
    """Whether these short lives are a crash loop."""

    def enter(self, phase: Phase, now: float) -> None:
        """Begins a phase."""
        self.phase = phase
        self.since = now
