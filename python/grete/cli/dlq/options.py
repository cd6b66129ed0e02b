"""What the commands share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from grete import units
from grete.cli.session import Session
from grete.client import Consumer
from grete.dlq.reading import SETTINGS
from grete.dlq.selection import Selection

F = TypeVar("F", bound=Callable[..., Any])


class TimeType(click.ParamType[datetime]):
    """An ISO 8601 time, or how long ago that is."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """What was given, understood; a time without a zone is local."""
        if isinstance(value, datetime):
            return value
        text = str(value)
        try:
            return datetime.fromisoformat(text).astimezone()
        except ValueError:
            pass
        try:
            return datetime.now(UTC) - timedelta(seconds=units.seconds(text))
        except (ValueError, OverflowError):
            self.fail(f'"{text}" is neither a time like 2026-01-31T12:00 nor how long ago it is, like 2h', param, ctx)


def selecting(function: F) -> F:
    """`--partition`, `--error` and `--source`."""
    for option in (
        click.option("--source", metavar="TOPIC[:PARTITION]", help="Only what came from there."),
        click.option(
            "--error",
            metavar="CLASS",
            help='Only this class of errors, like TimeoutError, app.PaymentError or "*Error".',
        ),
        click.option(
            "--partition", "-p", type=click.IntRange(min=0), metavar="N", help="Only this of the dead letter topic."
        ),
    ):
        function = option(function)
    return function


def selection(partition: int | None, offset: int | None, error: str | None, source: str | None) -> Selection:
    """The options as a selection."""
    if offset is not None and partition is None:
        raise click.UsageError("--offset makes sense with --partition only: each partition has its own")
    try:
        return Selection(partition, offset, error, source)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


@contextmanager
def reader(session: Session, **settings: str) -> Iterator[Consumer]:
    """A consumer of dead letters."""
    with Consumer({**session.settings, **SETTINGS, **settings}) as consumer:
        yield consumer


def say_foreign(topic: str, foreign: int, records: int) -> None:
    """A dead letter topic that holds something else, too, is worth a word."""
    if foreign:
        click.echo(f"{foreign:,} of {records:,} records of {topic} are no dead letters, and left out", err=True)
