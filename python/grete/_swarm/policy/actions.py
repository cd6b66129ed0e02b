"""Actions that the Manager returns. The supervisor executes them in their order."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fork:
    """Fork this node, then call `Manager.on_forked` or `Manager.on_fork_failed`."""

    node: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Send this signal to the node."""

    node: int
    signum: int


@dataclass(frozen=True, slots=True)
class DumpStacks:
    """Make the node write the stacks of all its threads (SIGTTIN)."""

    node: int


@dataclass(frozen=True, slots=True)
class Kill:
    """Send SIGKILL to the node."""

    node: int


@dataclass(frozen=True, slots=True)
class LeaveGroupsOnStop:
    """Make nodes that stop from now on leave their groups, because they get no successor.

    See `grete._process.node.LeaveGroupFlag`.
    """


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Log record on the logger "grete", and an event. `grete.instrumentation.events` lists all events."""

    name: str
    level: int
    text: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Exit:
    """All nodes have ended: the supervisor exits with this status. Returned once, as the last action."""

    status: int


Action = Fork | Signal | DumpStacks | Kill | LeaveGroupsOnStop | EmitEvent | Exit
