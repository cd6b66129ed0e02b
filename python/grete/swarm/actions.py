"""What the Manager wants done. The supervisor does it, in the order in which it was said."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fork:
    """Begin a life of this node, and tell `Manager.forked` or `Manager.fork_failed`."""

    node: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Send the node this signal."""

    node: int
    signum: int


@dataclass(frozen=True, slots=True)
class Dump:
    """Have the node write the stacks of all its threads (SIGTTIN)."""

    node: int


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL."""

    node: int


@dataclass(frozen=True, slots=True)
class Event:
    """A log record on the logger "grete". `grete.instrumentation.events` lists all of them."""

    name: str
    level: int
    text: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Exit:
    """All nodes are gone: the supervisor ends with this status. Comes once, and nothing comes after it."""

    status: int


Action = Fork | Signal | Dump | Kill | Event | Exit
