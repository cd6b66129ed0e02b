"""Selection of dead letters."""

import re
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Self
from urllib.parse import parse_qsl, quote, urlencode

from grete._dlq.dead_letter import DeadLetter

_SOURCE = re.compile(r"([A-Za-z0-9._-]+)(?::([0-9]{1,1000}))?")


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Conditions that a dead letter must meet, all of them; None: no condition.

    The conditions depend on the record alone, never on the time, so that the records a replay has covered can be
    determined later.
    """

    partition: int | None = None
    """Partition of the dead letter topic."""
    offset: int | None = None
    """Offset of the dead letter in that partition."""
    error: str | None = None
    """Class of the error, with or without its module; may have wildcards, in the syntax of file names."""
    source: str | None = None
    """TOPIC or TOPIC:PARTITION that the record came from."""

    def __post_init__(self) -> None:
        """Raises ValueError for conditions that no record could meet."""
        if self.source is not None and not _SOURCE.fullmatch(self.source):
            raise ValueError(f'a source is TOPIC or TOPIC:PARTITION, not "{self.source}"')

    def matches(self, letter: DeadLetter) -> bool:
        """Returns whether the dead letter meets all conditions."""
        message = letter.message
        return (
            (self.partition is None or message.partition == self.partition)
            and (self.offset is None or message.offset == self.offset)
            and (self.error is None or _matches_class(letter.error_class, self.error))
            and (self.source is None or self._matches_source(letter))
        )

    def _matches_source(self, letter: DeadLetter) -> bool:
        topic, _, partition = (self.source or "").partition(":")
        return letter.source_topic == topic and (not partition or letter.source_partition == int(partition))

    def to_query(self, **more: str | None) -> str:
        """Returns the filter as a query string, with `more` added; "" without conditions."""
        values = {field.name: getattr(self, field.name) for field in fields(self)} | more
        return urlencode(
            sorted((name, str(value)) for name, value in values.items() if value is not None), quote_via=quote
        )

    @classmethod
    def from_query(cls, query: str) -> tuple[Self, dict[str, str]]:
        """Parses a query string of `to_query` into the filter and the added values. Raises ValueError."""
        values = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
        known = {field.name: values.pop(field.name) for field in fields(cls) if field.name in values}
        numbers = {name: int(known.pop(name)) for name in ("partition", "offset") if name in known}
        return cls(**numbers, **known), values  # type: ignore[arg-type]


def _matches_class(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}")
