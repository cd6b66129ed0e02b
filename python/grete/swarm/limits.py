"""What a node may take, and how long: the numbers behind the rules of the Manager."""

import math
from dataclasses import dataclass, fields

# Seconds from the second SIGINT to KILL, beside `kill_grace`: handlers are not waited for any more, but what was
# processed is committed and the groups are left.
HURRY = 5.0

# Seconds for a node whose pipe was hung up to be seen dead: the kernel closes a dying process's files first.
HANG_UP_WAIT = 1.0

# Seconds after KILL until we say that the kernel keeps the process (an uninterruptible wait for a disk, for instance).
UNKILLABLE = 10.0

# Seconds that a wait for the GIL may lack of its limit. It is asked for with each report, and by a thread that wakes up
# in the same beat: at the n-th report it has lasted n seconds give or take a hair, and that is no reason to wait for
# the next one.
GIL_SLACK = 0.05

# Who is overdue and holds the GIL: seconds for which nobody else has got it, or half of the job's own if that is less,
# until it counts as wedged ("gil") and not as long ("handler"). The least is what a slow call into C code may take.
WEDGED = 5.0
WEDGED_LEAST = 1.5

# So many seconds after its deadline the supervisor did not merely sleep well: it was stopped, or the machine was.
LATE = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes. `math.inf` switches a timeout off."""

    max_rss: int | None = None
    """Bytes of resident memory beyond which a node is replaced: one report is enough."""
    gil_timeout: float = 30.0
    """How long no thread of a node may get the GIL."""
    report_timeout: float = 15.0
    """How long a node may say nothing."""
    unsteady_timeout: float = 300.0
    """How long a node may be without its place in its groups, while another node has one."""
    shutdown_timeout: float = 30.0
    """What a node has for its stop; it ends itself then, with its last words."""
    kill_grace: float = 1.0
    """KILL comes that much later than the end of `shutdown_timeout`."""
    dump_wait: float = 1.5
    """From the request for stacks to TERM. The dump that needs no GIL comes one second after the request."""
    backoff_first: float = 1.0
    """From a death to the next life; doubled with each short life. 0 would be a busy loop where forks fail."""
    backoff_cap: float = 30.0
    """The longest of these."""
    steady_after: float = 10.0
    """A node that lives that long after it got steady has recovered: backoff and crash loop count anew."""
    crash_loop_after: int = 5
    """So many short lives in a row are a crash loop."""

    def __post_init__(self) -> None:
        """ValueError for what no clock can keep."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "max_rss":
                continue
            least = 0 if field.name in _MAY_BE_ZERO else math.ulp(0)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
                raise ValueError(f"{field.name} is {'not negative' if least == 0 else 'above zero'}, not {value!r}")
        if self.backoff_cap < self.backoff_first:
            raise ValueError(f"the longest backoff, {self.backoff_cap} s, is below the first, {self.backoff_first} s")
        if not math.isfinite(self.backoff_cap):
            raise ValueError("the longest backoff is finite")


_MAY_BE_ZERO = {"shutdown_timeout", "dump_wait"}
