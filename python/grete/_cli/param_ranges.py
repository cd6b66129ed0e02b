"""Types of option values: numbers, positions and times in the ranges of Kafka, and values that a function parses."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

import click

from grete import _units
from grete.client.arguments import MAX_OFFSET, MAX_PARTITION, MAX_REPLICAS

T = TypeVar("T")

PARTITION = click.IntRange(0, MAX_PARTITION)
PARTITIONS = click.IntRange(1, MAX_PARTITION)
REPLICAS = click.IntRange(1, MAX_REPLICAS)
OFFSET = click.IntRange(0, MAX_OFFSET)
LIMIT = click.IntRange(1, sys.maxsize)


# click.ParamType is generic from click 8.4 on, and the base of both kinds is the same class.
_ParamType: Any = click.ParamType


class ParsedType(_ParamType, Generic[T]):  # type: ignore[misc]
    """Type of option values that a function parses. The function raises ValueError with the reason."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Parses text; other values are parsed already."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error


@dataclass(frozen=True, slots=True)
class FromEnd:
    """Position of so many offsets before the end of a partition."""

    count: int


Position = int | Literal["earliest", "latest"] | datetime | FromEnd
"""Position in a partition: an offset, one of its ends, the first record from a time on, or the last so many offsets."""

POSITION_HELP = "earliest, latest, an offset, -10 (ten before the end), a time in ISO 8601, or how long ago, like 1h"
POSITION_METAVAR = "earliest|latest|OFFSET|-N|TIME|AGO"


def position_of(text: str) -> Position:
    """Parses a position. Raises ValueError for other texts."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if text.startswith("-") and (count := offset_of(text[1:])) is not None:
        return FromEnd(count)
    number = offset_of(text)
    if number is not None:
        return number
    found = _moment_of(text)
    if found is None:
        raise ValueError(f'"{text}" is no position: give {POSITION_HELP}')
    return found


def moment_of(text: str) -> datetime:
    """Parses an ISO 8601 time, local without a zone, or how long ago it is, like 1h. Raises ValueError for other
    texts.
    """
    found = _moment_of(text)
    if found is None:
        raise ValueError(f'"{text}" is neither a time like 2026-01-31T12:00 nor how long ago it is, like 2h')
    return found


def _moment_of(text: str) -> datetime | None:
    time = time_of(text)
    if time is not None:
        return time.astimezone()
    try:
        return datetime.now(UTC) - timedelta(seconds=_units.seconds(text.removeprefix("-")))
    except ValueError:
        return None


POSITION = ParsedType("position", position_of)
MOMENT = ParsedType("time", moment_of)


def offset_of(text: str) -> int | None:
    """Parses an offset; None if the text is no number. Raises ValueError for an offset out of range."""
    return _whole_number(text, MAX_OFFSET)


def partition_of(text: str) -> int | None:
    """Parses a partition; None if the text is no number. Raises ValueError for a partition out of range."""
    return _whole_number(text, MAX_PARTITION)


def time_of(text: str) -> datetime | None:
    """Parses an ISO 8601 time, local without a zone; None if the text is no time.

    Raises ValueError for times that Kafka cannot store, those before 1970.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        early = time.timestamp() < 0
    except (ValueError, OverflowError):  # at the ends of the calendar there is no room for a time zone
        early = True
    if early:
        raise ValueError(f'"{text}" is out of range: times are from 1970-01-01 UTC on')
    return time


def _whole_number(text: str, most: int) -> int | None:
    if not (text.isascii() and text.isdigit()):
        return None
    # Python refuses to parse thousands of digits, with advice that does not help here.
    significant = text.lstrip("0") or "0"
    if len(significant) > len(str(most)) or int(significant) > most:
        raise ValueError(f'"{text}" is out of range: the most is {most}')
    return int(significant)
