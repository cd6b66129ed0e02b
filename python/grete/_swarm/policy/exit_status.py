"""Meaning of a process's exit status, and the exit status of the swarm that follows from it."""

import signal

CLEAN = 0
FAILED = 1
FORCED = 2
STATUS_MEANING = ("", ": a node did not end well", ": a node did not stop in time")


EXIT_REASONS = (
    # The supervisor asked for it: `stop_reason`.
    "memory",
    "gil",
    "handler",
    "membership",
    "report",
    "pipe",
    "restart",
    "stop",
    # Without a request.
    "itself",
    "exit",
    "SIGKILL",
    "SIGSEGV",
    "SIGABRT",
    "SIGBUS",
)
"""Reasons for which nodes end, as they are counted. Any other signal is a reason by its name, too."""


def signal_name(signum: int) -> str:
    """Returns the signal's name; "signal 64" for a signal without a name."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def describe(status: int) -> str:
    """Describes a status as "exit 1" or "killed by SIGSEGV". `status`: exit code, or -signal."""
    return f"exit {status}" if status >= 0 else f"killed by {signal_name(-status)}"


def exit_reason(status: int, stop_reason: str | None) -> str:
    """Returns one of `EXIT_REASONS`, or the name of another signal. `stop_reason`: None without a stop."""
    return stop_reason or ("exit" if status >= 0 else signal_name(-status))


def is_clean(status: int, asked: bool) -> bool:
    """Returns whether the process ended cleanly.

    A process that was asked to stop before it had its signal handlers dies of the signal itself.
    """
    return status == 0 or (asked and status in (-signal.SIGTERM, -signal.SIGINT))


def swarm_exit_status(status: int, asked: bool, killed: bool) -> int:
    """Returns the swarm's exit status that follows from this end of a node that is not replaced.

    `killed`: the supervisor sent SIGKILL. A process that exited by itself in that very moment counts as not killed.
    """
    if (killed and status == -signal.SIGKILL) or status == FORCED:
        return FORCED
    return CLEAN if is_clean(status, asked) else FAILED
