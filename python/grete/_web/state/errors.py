"""Errors of all Apps in groups: the same class at the same place of the same handler."""

import hashlib
import re
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from grete._web.state.report import InvalidReportError, count, load_object, text

_KEPT_GROUPS = 500
_KEPT_EACH = 20
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+|'[^']*'|\"[^\"]*\"")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """One error. `at`: milliseconds since 1970. `place`: its partition and offset in `grete.errors`."""

    at: int
    place: tuple[int, int]
    event: str
    process: str
    app: str
    host: str
    handler: str
    group: str
    topic: str
    partition: int | None
    offset: int | None
    attempt: int | None
    decision: str
    dead_letter: str
    error_class: str
    message: str
    traceback: str
    left_out: int
    """Errors of the process before this one that were not written, because there were too many."""

    @property
    def summary(self) -> str:
        """First line of what is wrong."""
        if self.message:
            return self.message.splitlines()[0]
        return {
            "consumer.stalled": "a handler runs for longer than stall_after",
            "consumer.timeout": "a handler runs for longer than handler_timeout",
            "loop.blocked": "the event loop is blocked",
        }.get(self.event, self.event)


@dataclass(slots=True)
class ErrorGroup:
    """Errors that are alike. `recent`: the newest of them, oldest first."""

    id: str
    count: int = 0
    first: int = 0
    last: int = 0
    processes: set[str] = field(default_factory=set)
    recent: deque[ErrorRecord] = field(default_factory=lambda: deque(maxlen=_KEPT_EACH))

    @property
    def example(self) -> ErrorRecord:
        """The newest error."""
        return self.recent[-1]


class ErrorLog:
    """Groups of errors, the one with the newest error last."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, ErrorGroup] = OrderedDict()
        self.total = 0

    def add(self, record: ErrorRecord) -> None:
        """Adds an error. The group that has been quiet for longest is forgotten when there are too many."""
        name = group_id(record)
        group = self._groups.setdefault(name, ErrorGroup(name, first=record.at))
        group.count += 1 + record.left_out
        group.first, group.last = min(group.first, record.at), max(group.last, record.at)
        if len(group.processes) < _KEPT_GROUPS:
            group.processes.add(record.process)
        group.recent.append(record)
        self._groups.move_to_end(name)
        self.total += 1 + record.left_out
        while len(self._groups) > _KEPT_GROUPS:
            self._groups.popitem(last=False)

    def get(self, name: str) -> ErrorGroup | None:
        """Returns a group; None: unknown."""
        return self._groups.get(name)

    def groups(self, app: str = "") -> Sequence[ErrorGroup]:
        """Returns the groups, the newest first; `app`: only those of this App."""
        return [group for group in reversed(self._groups.values()) if app in ("", group.example.app)]


def group_id(record: ErrorRecord) -> str:
    """Returns the id of the group that an error belongs to."""
    frames = _FRAME.findall(record.traceback)
    # Without frames the text decides, where numbers and quoted names differ from record to record.
    where = repr(frames[-1]) if frames else _VARIABLE.sub("*", record.summary)
    parts = (record.app, record.event, record.handler, record.error_class, where)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def parse_error(value: bytes, place: tuple[int, int]) -> ErrorRecord:
    """Parses a record of `grete.errors`. Raises InvalidReportError, and nothing else."""
    content = load_object(value)
    process = content.get("process")
    if not isinstance(process, dict):
        raise InvalidReportError("the error names no process")
    return ErrorRecord(
        at=count(content.get("at")) or 0,
        place=place,
        event=text(content.get("event")),
        process=text(process.get("id")),
        app=text(process.get("app")),
        host=text(process.get("host")),
        handler=text(content.get("handler")),
        group=text(content.get("group")),
        topic=text(content.get("topic")),
        partition=count(content.get("partition")),
        offset=_first(content, "offset", "first_offset"),
        attempt=count(content.get("attempt")) or count(content.get("attempts")),
        decision=text(content.get("decision")),
        dead_letter=text(content.get("dead_letter")),
        error_class=text(content.get("class")),
        message=text(content.get("message")),
        traceback=text(content.get("traceback"), 16_384),
        left_out=min(count(content.get("left_out")) or 0, 1_000_000),
    )


def _first(content: dict[str, object], *names: str) -> int | None:
    return next((found for name in names if (found := count(content.get(name))) is not None), None)
