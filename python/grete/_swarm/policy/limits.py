"""Limits on a node's resources and times: the numbers behind the rules of the Manager."""

import math
from dataclasses import dataclass, fields

# Seconds from the second SIGINT to KILL, in addition to `kill_grace`. Handlers are not waited for any more, but
# processed records are committed and the groups are left.
EXPEDITED_STOP_TIMEOUT = 5.0

# Seconds from the end of a node's pipe to its death: the kernel closes a dying process's files first.
PIPE_CLOSED_GRACE = 1.0

# Seconds after KILL until the log says that the kernel keeps the process (an uninterruptible wait for a disk, say).
KILL_TIMEOUT = 10.0

# Tolerance for a wait for the GIL, in seconds. The wait is measured with each report, by a thread that wakes up in the
# same rhythm. At the n-th report the wait has lasted about n seconds, a hair more or less, and that hair is no reason
# to wait for the next report.
GIL_SLACK = 0.05

# An overdue job whose thread holds the GIL: seconds without the GIL for other threads, or half of the job's duration
# if that is less, until the reason is "gil" and not "handler". The minimum is what a slow call into C code may take.
WEDGED_AFTER = 5.0
WEDGED_MIN = 1.5

# Seconds after its deadline from which a late supervisor counts as paused (SIGSTOP, system suspend), not as slow.
STALL_THRESHOLD = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in seconds and bytes. `math.inf` switches a timeout off."""

    max_rss: int | None = None
    """Bytes of resident memory above which a node is replaced, after one report; None: no limit."""
    gil_timeout: float = 30.0
    """Seconds for which no thread of a node may get the GIL."""
    report_timeout: float = 15.0
    """Seconds for which a node may send no report."""
    not_ready_timeout: float = 300.0
    """Seconds for which a node may be not ready while another node is ready."""
    shutdown_timeout: float = 30.0
    """Seconds that a node has for its stop. After them, the node itself writes a report and exits."""
    kill_grace: float = 1.0
    """Seconds from the end of `shutdown_timeout` to KILL."""
    dump_wait: float = 1.5
    """Seconds from the request for stacks to TERM. The dump that needs no GIL is written 1 s after the request."""
    backoff_first: float = 1.0
    """Seconds from a death to the next fork, doubled with each short life. 0 would be a busy loop while forks fail."""
    backoff_cap: float = 30.0
    """Maximum of that delay, in seconds."""
    ready_after: float = 10.0
    """Seconds from ready to recovered: after them, backoff and crash loop are counted from zero again."""
    crash_loop_after: int = 5
    """Number of short lives in a row that are a crash loop."""
    session_timeout: float = 45.0
    """Kafka's `session.timeout.ms` in seconds: how long a group keeps a silent member."""
    rebalance_timeout: float = 300.0
    """Kafka's `max.poll.interval.ms` in seconds: how long a rebalance waits for a member whose handlers run."""
    stale_member_timeout: float = 0.0
    """Seconds for which the member of a process that died without leaving holds up its group.

    `session_timeout`; 0 for static members, because the next process of the node takes over the member."""

    def __post_init__(self) -> None:
        """Raises ValueError for a limit that is negative, not a number, or zero where zero is not allowed."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "max_rss":
                continue
            least = 0 if field.name in _ZERO_ALLOWED else math.ulp(0)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
                raise ValueError(f"{field.name} is {'not negative' if least == 0 else 'above zero'}, not {value!r}")
        if self.backoff_cap < self.backoff_first:
            raise ValueError(f"the longest backoff, {self.backoff_cap} s, is below the first, {self.backoff_first} s")
        if not math.isfinite(self.backoff_cap):
            raise ValueError("the longest backoff is finite")


_ZERO_ALLOWED = {"shutdown_timeout", "dump_wait", "stale_member_timeout"}
