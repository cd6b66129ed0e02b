"""How an event is described in the registry."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Between fields; a type may have commas, too.
_NEXT = re.compile(r", (?=\w+\??: )")


@dataclass(frozen=True, slots=True)
class Described:
    """An event as users see it."""

    levels: tuple[int, ...]
    """Of its log records, as `logging` counts. Empty: it is emitted only, and not logged."""
    when: str
    payload: str = ""
    """Its fields with their types, as in "topic: str, slot?: int": those with a question mark may be missing."""

    emitted: bool = True
    """Whether one can listen to it. False: it is logged only."""

    @property
    def types(self) -> Mapping[str, str]:
        """Type by field; the names without question marks."""
        pairs = (field.split(": ", 1) for field in _NEXT.split(self.payload) if field)
        return {name.rstrip("?"): kind for name, kind in pairs}

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of all fields, in their order."""
        return tuple(self.types)

    @property
    def optional(self) -> frozenset[str]:
        """Names of those that may be missing."""
        return frozenset(field.split("?")[0] for field in _NEXT.split(self.payload) if "?: " in field)
