"""What the end of a process says, and with which status the swarm ends after it."""

import signal

CLEAN = 0
FAILED = 1
FORCED = 2
MEANING = ("", ": a node did not end well", ": a node did not stop in time")


REASONS = (
    # Somebody asked for it: `why_stopping`.
    "memory",
    "gil",
    "handler",
    "membership",
    "report",
    "pipe",
    "restart",
    "stop",
    # Nobody did.
    "itself",
    "exit",
    "SIGKILL",
    "SIGSEGV",
    "SIGABRT",
    "SIGBUS",
)
"""Why nodes end, as it is counted. Any other signal is a reason by its name, too."""


def name(signum: int) -> str:
    """The signal's name; "signal 64" for one without."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def words(status: int) -> str:
    """As in "exit 1" and "killed by SIGSEGV". `status`: exit code, or -signal."""
    return f"exit {status}" if status >= 0 else f"killed by {name(-status)}"


def reason(status: int, why_stopping: str | None) -> str:
    """One of `REASONS`, or the name of another signal. `why_stopping`: why it was asked, or had said that it goes."""
    return why_stopping or ("exit" if status >= 0 else name(-status))


def clean(status: int, asked: bool) -> bool:
    """Whether the process ended well. One that was asked before it had its handlers dies of the signal itself."""
    return status == 0 or (asked and status in (-signal.SIGTERM, -signal.SIGINT))


def share(status: int, asked: bool, killed: bool) -> int:
    """What this end makes of the swarm's exit status, if nothing takes the node's place any more.

    `killed`: we wanted it. Who ended by itself in the very moment has ended by itself.
    """
    if (killed and status == -signal.SIGKILL) or status == FORCED:
        return FORCED
    return CLEAN if clean(status, asked) else FAILED
