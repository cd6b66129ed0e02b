"""A dead letter: a record and what has happened to it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from grete._core import Message
from grete.dlq import headers
from grete.errors import GreteError


class NoDeadLettersError(GreteError):
    """The topic's records are no dead letters."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a dead letter topic. What its headers do not say, or not legibly, is None or ""."""

    message: Message
    source: str
    """The topic that the record came from."""
    source_partition: int | None
    source_offset: int | None
    group: str
    attempts: int | None
    error: str
    """The class of the last error, with its module."""
    text: str
    """What the error said."""
    first_failed: datetime | None
    last_failed: datetime | None
    replayed: int
    """How often it has been replayed, and has failed again."""

    @property
    def origin(self) -> str:
        """Where the record came from, for people."""
        partition = "" if self.source_partition is None else f"[{self.source_partition}]"
        return f"{self.source}{partition}{'' if self.source_offset is None else f':{self.source_offset}'}"

    def headers_to_replay(self) -> list[tuple[str, bytes | None]]:
        """The record's own headers, and how often it has been replayed then."""
        own = [(name, value) for name, value in self.message.headers if not name.startswith(headers.PREFIX)]
        return [*own, (headers.REPLAYED, str(self.replayed + 1).encode())]


def letter_of(message: Message) -> Letter | None:
    """The dead letter that the message is; None: its headers do not say where it came from, so it is none."""
    told = {
        name: value.decode("utf-8", "replace")
        for name, value in message.headers
        if value is not None and name.startswith(headers.PREFIX)
    }
    source = told.get(headers.SOURCE_TOPIC)
    if not source:
        return None
    return Letter(
        message=message,
        source=source,
        source_partition=_number(told, headers.SOURCE_PARTITION),
        source_offset=_number(told, headers.SOURCE_OFFSET),
        group=told.get(headers.SOURCE_GROUP, ""),
        attempts=_number(told, headers.ATTEMPTS),
        error=told.get(headers.ERROR_CLASS, ""),
        text=told.get(headers.ERROR_MESSAGE, ""),
        first_failed=_time(told, headers.FIRST_FAILED),
        last_failed=_time(told, headers.LAST_FAILED),
        replayed=_number(told, headers.REPLAYED) or 0,
    )


def iso(time: datetime | None, timespec: str = "milliseconds") -> str | None:
    """ISO 8601, UTC."""
    return None if time is None else time.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def _number(told: dict[str, str], name: str) -> int | None:
    # Others may write headers of these names, too: `int` alone takes " 1_0 " and digits of any length.
    text = told.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _time(told: dict[str, str], name: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(told.get(name, ""))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
