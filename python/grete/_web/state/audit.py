"""Commands with their results, as `grete.audit` has them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from grete._web.state.report import InvalidReportError, count, load_object, text

_KEPT = 1_000
_MAX_DETAIL = 24_000
_MAX_ARGUMENTS = 10
RESULTS = frozenset({"asked", "done", "failed", "refused"})


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Request to a process, or its result. `at`: milliseconds since 1970."""

    at: int
    command: str
    """Id of the command; "": it could not be read."""
    action: str
    arguments: tuple[tuple[str, str], ...]
    by: str
    process: str
    app: str
    result: str
    """One of `RESULTS`."""
    text: str
    detail: str


class AuditLog:
    """The newest entries."""

    def __init__(self) -> None:
        self._entries: deque[AuditEntry] = deque(maxlen=_KEPT)

    def add(self, entry: AuditEntry) -> None:
        """Adds an entry."""
        self._entries.append(entry)

    def newest(self, process: str = "") -> Sequence[AuditEntry]:
        """Returns the entries, the newest first; `process`: only those of this process."""
        return [entry for entry in reversed(self._entries) if process in ("", entry.process)]


def parse_audit(value: bytes) -> AuditEntry:
    """Parses a record of `grete.audit`. Raises InvalidReportError, and nothing else."""
    content = load_object(value)
    process, arguments = content.get("process"), content.get("arguments", {})
    result = text(content.get("result"))
    if not isinstance(process, dict) or not isinstance(arguments, dict) or result not in RESULTS:
        raise InvalidReportError("the record is no part of the audit")
    return AuditEntry(
        at=count(content.get("at")) or 0,
        command=text(content.get("command")),
        action=text(content.get("action")),
        arguments=tuple((text(name), text(one)) for name, one in list(arguments.items())[:_MAX_ARGUMENTS]),
        by=text(content.get("by")),
        process=text(process.get("id")),
        app=text(process.get("app")),
        result=result,
        text=text(content.get("text")),
        detail=text(content.get("detail"), _MAX_DETAIL),
    )
