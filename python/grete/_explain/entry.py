"""Entry of the error index."""

from typing import NamedTuple


class Entry(NamedTuple):
    """Explanation of an error or of an event."""

    cause: str
    cure: str
    example: str
    """Text of the error or of the log line; the name of the class or the level and the event are not in it."""
