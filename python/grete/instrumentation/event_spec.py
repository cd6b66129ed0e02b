"""Description of an event in the registry."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Separator between fields; a type may contain commas, too.
_FIELD_SEPARATOR = re.compile(r", (?=\w+\??: )")


@dataclass(frozen=True, slots=True)
class EventSpec:
    """Description of an event for users."""

    levels: tuple[int, ...]
    """Levels of its log records, as numbers of `logging`. Empty: the event is not logged."""
    description: str
    payload: str = ""
    """Fields with their types, like "topic: str, slot?: int"; fields with a question mark may be missing."""

    emitted: bool = True
    """Whether listeners can subscribe. False: the event is only logged."""

    @property
    def types(self) -> Mapping[str, str]:
        """Types by field name, without the question marks."""
        pairs = (field.split(": ", 1) for field in _FIELD_SEPARATOR.split(self.payload) if field)
        return {name.rstrip("?"): kind for name, kind in pairs}

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of all fields, in their order."""
        return tuple(self.types)

    @property
    def optional(self) -> frozenset[str]:
        """Names of the fields that may be missing."""
        return frozenset(field.split("?")[0] for field in _FIELD_SEPARATOR.split(self.payload) if "?: " in field)
