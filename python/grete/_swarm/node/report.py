"""Parser of the reports that a node writes to its pipe once a second.

A frame is a big-endian u32 length and that many bytes of JSON. The input is not trusted: a wedged or overwritten
process may write anything.
"""

import json
from dataclasses import dataclass
from typing import Self

from grete import _native
from grete._swarm.node.json_fields import JsonFields, ReportError, quote

__all__ = [
    "MAX_FRAME",
    "VERSION",
    "FailedPartition",
    "GroupMembership",
    "LaneCounts",
    "LastError",
    "OldestJob",
    "OverdueJob",
    "Report",
    "ReportError",
    "ReportReader",
    "UnmovedLane",
]

VERSION = 1
MAX_FRAME = 65_536
"""Maximum bytes of JSON in a frame."""
_MAX_ERROR = 1000
"""Characters of a `LastError`."""


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """Membership of one client. `group` is "" for a client without a group."""

    group: str
    state: str
    since: float
    """Seconds in this state."""
    ready: bool
    generation: int | None
    """None: not a member (yet), or partitions assigned by the client itself."""
    partitions: int
    instance: str | None
    """`group.instance.id` of a static member; None: dynamic member."""
    connections: int | None = None
    """Number of connected brokers; None: unknown."""
    login_failure: str | None = None
    """Failure of the last login, with its cure; None: none since a login succeeded."""
    authorization_failure: str | None = None
    """ACL on the group that is missing, with the command that creates it; None: none is missing."""


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """Number of lanes by state."""

    idle: int
    ready: int
    running: int
    paused: int
    failed: int
    leaving: int


@dataclass(frozen=True, slots=True)
class MissingTopic:
    """A topic that is needed and does not exist. `text` says what needs the topic, and the cure."""

    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class OldestJob:
    """The job that has run longest."""

    handler: str
    topic: str
    partition: int
    seconds: float
    overdue: bool


@dataclass(frozen=True, slots=True)
class OverdueJob:
    """A job that has run longer than its route's `handler_timeout`, which is `limit` seconds."""

    handler: str
    topic: str
    partition: int
    seconds: float
    limit: float


@dataclass(frozen=True, slots=True)
class FailedPartition:
    """A partition that has been unreadable for `seconds`."""

    handler: str
    topic: str
    partition: int
    failure: str
    """Cause in one word."""
    error: str
    """Error and cure as text."""
    seconds: float


@dataclass(frozen=True, slots=True)
class UnmovedLane:
    """A partition that has not moved for `seconds`, although records wait."""

    handler: str
    topic: str
    partition: int
    waits_for: str
    """Cause in one word."""
    wait: str
    """The same as a sentence about the partition ("it")."""
    seconds: float
    lag: int | None
    """None: unknown."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report. Times are seconds, memory is bytes; counters start with the node."""

    seq: int
    """Number of the report from 0, including reports that found the pipe full."""
    uptime: float
    """Seconds since the reports began."""
    ready: bool
    """All groups are ready, and the workers have started."""
    quiet: bool
    stopping: bool
    gil_wait: float
    """Longest recent wait of the GIL probe, in seconds: the present wait or the last one. 0 without a probe."""
    loop_wait: float | None
    """Seconds for which a callback has waited for the event loop; 0: none waits. None: no event loop."""
    rss: int | None
    """None: not available."""
    pss: int | None
    """None: not available, or too expensive to read each second."""
    groups: tuple[GroupMembership, ...]
    lanes: LaneCounts
    lag: int | None
    """Records, over all lanes with a known lag; None: no lag is known."""
    oldest: OldestJob | None
    overdue: tuple[OverdueJob, ...]
    """Longest first; long lists are truncated."""
    stalled: tuple[str, ...]
    """Lanes whose job exceeds its route's `stall_after`, as "topic[partition]"; long lists are truncated."""
    failed: tuple[FailedPartition, ...]
    """Partitions that cannot be read; long lists are truncated."""
    jobs: int
    records: int
    failures: int
    dead_letters: int
    workers: int
    dropped: int
    """Reports that found the pipe full."""
    missing: tuple[MissingTopic, ...] = ()
    """Missing topics; long lists are truncated."""
    unmoved: tuple[UnmovedLane, ...] = ()
    """Partitions that have not moved for `stall_after`; long lists are truncated."""

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Parses a report. Ignores unknown fields. Raises ReportError, and nothing else."""
        return _fields(text).read(cls)


@dataclass(frozen=True, slots=True)
class LastError:
    """Error that ends the process, which writes nothing after it."""

    text: str

    def frame(self) -> bytes:
        """Returns the frame for the pipe."""
        text = json.dumps({"v": VERSION, "error": self.text[:_MAX_ERROR]}).encode()
        return len(text).to_bytes(4, "big") + text


class ReportReader:
    """Splits the bytes of one node's pipe into reports. Buffers less than one frame.

    After an error, each further call raises the same error, because the start of the next frame is unknown.
    """

    def __init__(self) -> None:
        self._partial = bytearray()
        self._error: str | None = None

    def feed(self, piece: bytes) -> "list[Report | LastError]":
        """Returns the frames that are complete now, in their order. Raises ReportError."""
        if self._error is not None:
            raise ReportError(self._error)
        try:
            return self._reports(piece)
        except ReportError as error:
            self._error = str(error)
            self._partial.clear()
            raise

    def _reports(self, piece: bytes) -> "list[Report | LastError]":
        stream = self._partial
        stream += piece
        reports: list[Report | LastError] = []
        at = 0
        while len(stream) - at >= 4:
            size = int.from_bytes(stream[at : at + 4], "big")
            if size > MAX_FRAME:
                raise ReportError(
                    f"{quote(bytes(stream[at : at + 64]))} begins no frame: {size} bytes were to follow, "
                    f"and a report has at most {MAX_FRAME}"
                )
            end = at + 4 + size
            if len(stream) < end:
                break
            reports.append(_from_json(bytes(stream[at + 4 : end])))
            at = end
        del stream[:at]
        return reports


def _fields(text: bytes) -> JsonFields:
    try:
        content = json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{quote(text)} is no JSON: {quote(error)}") from None
    fields = JsonFields("report", content)
    version = fields.count("v")
    if version != VERSION:
        raise ReportError(f"report.v is {version}, and this supervisor reads version {VERSION}")
    return fields


def _from_json(text: bytes) -> Report | LastError:
    fields = _fields(text)
    if "error" in fields.content:
        return LastError(_native.one_line(fields.string("error")[:_MAX_ERROR]))
    return fields.read(Report)


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
