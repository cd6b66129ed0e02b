"""What a node says of itself once a second, as the supervisor reads it from the node's pipe.

A frame is a big-endian u32 length and that many bytes of JSON. The node is not to be trusted: it may be anything that a
wedged or overwritten process writes.
"""

import json
from dataclasses import dataclass
from typing import Self

from grete.swarm.fields import Fields, ReportError, shown

__all__ = ["MAX_FRAME", "VERSION", "Group", "Lanes", "Oldest", "Overdue", "Reader", "Report", "ReportError"]

VERSION = 1
MAX_FRAME = 65_536
"""Bytes of JSON in a frame, at most."""


@dataclass(frozen=True, slots=True)
class Group:
    """One client's membership. `group` is "" for a client without one."""

    group: str
    state: str
    since: float
    """Seconds in this state."""
    steady: bool
    generation: int | None
    """None: it is no member (yet), or assigns its partitions itself."""
    partitions: int
    instance: str | None
    """Its `group.instance.id`, if it is a static member."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many lanes are in which state."""

    idle: int
    ready: int
    running: int
    paused: int
    leaving: int


@dataclass(frozen=True, slots=True)
class Oldest:
    """The job that has run longest."""

    handler: str
    topic: str
    partition: int
    seconds: float
    overdue: bool


@dataclass(frozen=True, slots=True)
class Overdue:
    """A job that has run longer than its route's `handler_timeout`, which is `limit` seconds."""

    handler: str
    topic: str
    partition: int
    seconds: float
    limit: float


@dataclass(frozen=True, slots=True)
class Report:
    """One report. Times are seconds, memory is bytes, counts run since the node's start."""

    seq: int
    """From 0; counts reports that found the pipe full, too."""
    uptime: float
    """Since the reports began."""
    steady: bool
    """All groups steady, and workers started."""
    quiet: bool
    stopping: bool
    gil_wait: float
    """How long the canary waits for the GIL, or waited last; the longer of the two. 0 without a canary."""
    rss: int | None
    """None: not to be had."""
    pss: int | None
    """None: not to be had, or too dear to ask each second."""
    groups: tuple[Group, ...]
    lanes: Lanes
    lag: int | None
    """Records, over all lanes whose lag is known. None: of none it is."""
    oldest: Oldest | None
    overdue: tuple[Overdue, ...]
    """Longest first; long lists are cut."""
    stalled: tuple[str, ...]
    """Lanes whose job has run longer than its route's `stall_after`, as "topic[partition]"; long lists are cut."""
    jobs: int
    records: int
    failures: int
    dead_letters: int
    workers: int
    dropped: int
    """Reports that found the pipe full."""

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """The report that `text` is. Raises ReportError, and nothing else. Fields that it does not know are ignored."""
        try:
            content = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise ReportError(f"{shown(text)} is no JSON: {shown(error)}") from None
        fields = Fields("report", content)
        version = fields.count("v")
        if version != VERSION:
            raise ReportError(f"report.v is {version}, and this supervisor reads version {VERSION}")
        return cls(
            seq=fields.count("seq"),
            uptime=fields.seconds("uptime"),
            steady=fields.flag("steady"),
            quiet=fields.flag("quiet"),
            stopping=fields.flag("stopping"),
            gil_wait=fields.seconds("gil_wait"),
            rss=fields.known("rss", fields.count),
            pss=fields.known("pss", fields.count),
            groups=fields.each("groups", _group),
            lanes=fields.inner("lanes", _lanes),
            lag=fields.known("lag", fields.count),
            oldest=fields.known("oldest", lambda name: fields.inner(name, _oldest)),
            overdue=fields.each("overdue", _overdue),
            stalled=fields.texts("stalled"),
            jobs=fields.count("jobs"),
            records=fields.count("records"),
            failures=fields.count("failures"),
            dead_letters=fields.count("dead_letters"),
            workers=fields.count("workers"),
            dropped=fields.count("dropped"),
        )


class Reader:
    """Makes reports of what comes through one node's pipe, in whatever pieces. Keeps less than one frame.

    After an error all that follows is refused with the same: nobody knows where the next frame begins.
    """

    def __init__(self) -> None:
        self._partial = bytearray()
        self._broken: str | None = None

    def feed(self, piece: bytes) -> list[Report]:
        """The reports that are complete now, in order. Raises ReportError."""
        if self._broken is not None:
            raise ReportError(self._broken)
        try:
            return self._reports(piece)
        except ReportError as error:
            self._broken = str(error)
            self._partial.clear()
            raise

    def _reports(self, piece: bytes) -> list[Report]:
        stream = self._partial
        stream += piece
        reports, at = [], 0
        while len(stream) - at >= 4:
            size = int.from_bytes(stream[at : at + 4], "big")
            if size > MAX_FRAME:
                raise ReportError(
                    f"{shown(bytes(stream[at : at + 64]))} begins no frame: {size} bytes were to follow, "
                    f"and a report has at most {MAX_FRAME}"
                )
            end = at + 4 + size
            if len(stream) < end:
                break
            reports.append(Report.from_json(bytes(stream[at + 4 : end])))
            at = end
        del stream[:at]
        return reports


def _group(fields: Fields) -> Group:
    return Group(
        group=fields.text("group"),
        state=fields.text("state"),
        since=fields.seconds("since"),
        steady=fields.flag("steady"),
        generation=fields.known("generation", fields.count),
        partitions=fields.count("partitions"),
        instance=fields.known("instance", fields.text),
    )


def _lanes(fields: Fields) -> Lanes:
    return Lanes(*map(fields.count, ("idle", "ready", "running", "paused", "leaving")))


def _oldest(fields: Fields) -> Oldest:
    handler, topic = fields.text("handler"), fields.text("topic")
    return Oldest(handler, topic, fields.count("partition"), fields.seconds("seconds"), fields.flag("overdue"))


def _overdue(fields: Fields) -> Overdue:
    handler, topic = fields.text("handler"), fields.text("topic")
    return Overdue(handler, topic, fields.count("partition"), fields.seconds("seconds"), fields.seconds("limit"))


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
