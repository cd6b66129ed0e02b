"""Process of a swarm as the code in it sees it: its node, its name in logs, and the flag for leaving groups."""

import logging
import mmap
import signal
from dataclasses import dataclass
from typing import Any

from grete import _native
from grete._process import forks

# Signals that a supervisor sends to a node. They stay blocked from before the fork until the node's Runner handles
# them. A signal that arrives earlier waits: it neither stops the process (TSTP, TTIN) nor ends it at once (TERM).
BLOCKED_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN})

_node_name = "-"
_previous_factory: Any = None


class LeaveGroupFlag:
    """One byte in memory that the supervisor and all its nodes share.

    Matters for static members only (KIP-345). A node that is replaced keeps its places, so its successor has its
    partitions at once. When the swarm stops, or is quiet, a stopping node has no successor. Then the supervisor sets
    the flag, and nodes that stop from then on leave their groups, so that other processes get their partitions at once.
    """

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)

    def set(self) -> None:
        """Makes nodes that stop from now on leave their groups."""
        self._shared[0] = 1

    @property
    def is_set(self) -> bool:
        """Whether a node that stops now leaves its groups."""
        return self._shared[0] != 0


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Context that the supervisor hands to the Runner of a node."""

    id: int  # 0..nodes-1; a restarted node keeps its id
    node_count: int
    report_pipe: int  # write end of the report pipe, non-blocking
    report_interval: float  # seconds
    supervisor_pid: int  # pid of the supervisor
    metrics_segment: "_native.SharedText | None" = None  # for the metrics; None: they have no reader
    group_instance_id: str | None = None  # `group.instance.id` made by the swarm; None: not made by it
    leave_group_flag: LeaveGroupFlag | None = None
    member_ids: tuple[str, str | None] | None = None
    """Member id in groups with the consumer protocol, and that of the node's process before, which is dead."""

    @property
    def name(self) -> str:
        """Name of the node in logs and errors."""
        return f"node-{self.id}"


def unblock_signals() -> None:
    """Unblocks the signals of a node once it has its handlers: signals sent to it since its fork arrive now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)
    forks.unblock_in_child(frozenset())


def set_node_name(name: str) -> None:
    """Sets the attribute `grete_node` of all further log records of this process. Formatters may show it."""
    global _node_name, _previous_factory
    _node_name = name
    if logging.getLogRecordFactory() is not _record_factory:
        _previous_factory = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_record_factory)


def line_prefix() -> str:
    """Returns the prefix for lines that bypass logging; "" outside of a swarm."""
    return "" if _node_name == "-" else f"{_node_name}: "


def _record_factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record: logging.LogRecord = _previous_factory(*args, **kwargs)
    record.grete_node = _node_name
    return record


class Formatter(logging.Formatter):
    """Formatter of Grete's own handlers, whose lines no text of a record or a broker can forge.

    Control characters are escaped. Lines after the first, those of tracebacks, are indented: the text of an error with
    a line break begins no other record of the log. The formatter knows `grete_node` even of records made by a record
    factory of the user.

    The first line of a warning or an error ends with the name of its event in brackets, for `grete explain NAME`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Formats like `logging.Formatter`."""
        if not hasattr(record, "grete_node"):
            record.grete_node = _node_name
        return "\n  ".join(map(_native.one_line, super().format(record).split("\n")))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Adds the name of the event to the first line."""
        text = super().formatMessage(record)
        event = getattr(record, "event", None)
        if record.levelno < logging.WARNING or not isinstance(event, str):
            return text
        first, newline, others = text.partition("\n")
        return f"{first} [{event}]{newline}{others}"
