"""Dead letter: a failed record and its failures."""

from dataclasses import dataclass
from datetime import UTC, datetime

from grete._dlq import header_names
from grete._native import Message
from grete.errors import GreteError


class NoDeadLettersError(GreteError):
    """The records of the topic are no dead letters."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Record of a dead letter topic. Fields whose header is missing or invalid are None or ""."""

    message: Message
    source_topic: str
    """Topic that the record came from."""
    source_partition: int | None
    source_offset: int | None
    group: str
    attempts: int | None
    error_class: str
    """Class of the last error, with its module."""
    error_message: str
    """Message of the last error."""
    first_failed: datetime | None
    last_failed: datetime | None
    replay_count: int
    """Number of replays after which the record has failed again."""

    @property
    def origin(self) -> str:
        """Source of the record, for people: TOPIC[PARTITION]@OFFSET, as in the log."""
        partition = "" if self.source_partition is None else f"[{self.source_partition}]"
        return f"{self.source_topic}{partition}{'' if self.source_offset is None else f'@{self.source_offset}'}"

    def headers_to_replay(self) -> list[tuple[str, bytes | None]]:
        """Returns the record's own headers, and the header with the new number of replays."""
        own = [(name, value) for name, value in self.message.headers if not name.startswith(header_names.PREFIX)]
        return [*own, (header_names.REPLAYED, str(self.replay_count + 1).encode())]


def parse_dead_letter(message: Message) -> DeadLetter | None:
    """Returns the message as a dead letter; None if its headers name no source topic."""
    values = {
        name: value.decode("utf-8", "replace")
        for name, value in message.headers
        if value is not None and name.startswith(header_names.PREFIX)
    }
    source = values.get(header_names.SOURCE_TOPIC)
    if not source:
        return None
    return DeadLetter(
        message=message,
        source_topic=source,
        source_partition=_number(values, header_names.SOURCE_PARTITION),
        source_offset=_number(values, header_names.SOURCE_OFFSET),
        group=values.get(header_names.SOURCE_GROUP, ""),
        attempts=_number(values, header_names.ATTEMPTS),
        error_class=values.get(header_names.ERROR_CLASS, ""),
        error_message=values.get(header_names.ERROR_MESSAGE, ""),
        first_failed=_time(values, header_names.FIRST_FAILED),
        last_failed=_time(values, header_names.LAST_FAILED),
        replay_count=_number(values, header_names.REPLAYED) or 0,
    )


def format_time(time: datetime | None, timespec: str = "milliseconds") -> str | None:
    """Returns the time in ISO 8601, UTC."""
    return None if time is None else time.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def _number(values: dict[str, str], name: str) -> int | None:
    # Other programs may write headers of these names, too: `int` alone accepts " 1_0 " and digits of any length.
    text = values.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _time(values: dict[str, str], name: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(values.get(name, ""))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
