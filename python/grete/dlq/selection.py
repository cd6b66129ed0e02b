"""Which dead letters are meant."""

import re
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Self
from urllib.parse import parse_qsl, quote, urlencode

from grete.dlq.letter import Letter

_SOURCE = re.compile(r"([A-Za-z0-9._-]+)(?::([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that a dead letter meets, all of them; None: any will do.

    They depend on the record alone, never on the time of asking: what a selection has covered can be told later.
    """

    partition: int | None = None
    """Of the dead letter topic."""
    offset: int | None = None
    """Of the dead letter, in that partition."""
    error: str | None = None
    """The error's class, with or without its module; may hold wildcards, as file names do."""
    source: str | None = None
    """TOPIC or TOPIC:PARTITION that the record came from."""

    def __post_init__(self) -> None:
        """Raises ValueError for what no record could meet."""
        if self.source is not None and not _SOURCE.fullmatch(self.source):
            raise ValueError(f'a source is TOPIC or TOPIC:PARTITION, not "{self.source}"')

    def covers(self, letter: Letter) -> bool:
        """Whether the dead letter is one of those that are meant."""
        message = letter.message
        return (
            (self.partition is None or message.partition == self.partition)
            and (self.offset is None or message.offset == self.offset)
            and (self.error is None or _is_class(letter.error, self.error))
            and (self.source is None or self._from(letter))
        )

    def _from(self, letter: Letter) -> bool:
        topic, _, partition = (self.source or "").partition(":")
        return letter.source == topic and (not partition or letter.source_partition == int(partition))

    def query(self, **more: str | None) -> str:
        """Itself as text, `more` beside it: "" when nothing is asked for."""
        told = {field.name: getattr(self, field.name) for field in fields(self)} | more
        return urlencode(
            sorted((name, str(value)) for name, value in told.items() if value is not None), quote_via=quote
        )

    @classmethod
    def parse(cls, query: str) -> tuple[Self, dict[str, str]]:
        """What `query` has made text of, and what was beside it. Raises ValueError."""
        told = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
        known = {field.name: told.pop(field.name) for field in fields(cls) if field.name in told}
        numbers = {name: int(known.pop(name)) for name in ("partition", "offset") if name in known}
        return cls(**numbers, **known), told  # type: ignore[arg-type]


def _is_class(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}")
