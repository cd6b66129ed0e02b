"""Options and helpers of the dlq commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from grete._cli.param_ranges import PARTITION
from grete._cli.session import AdminSession
from grete._cli.terminal import output
from grete._dlq.filter import DeadLetterFilter
from grete._dlq.reader import SETTINGS
from grete._plural import plural
from grete.client import Consumer

F = TypeVar("F", bound=Callable[..., Any])


def filter_options(function: F) -> F:
    """Adds `--partition`, `--error` and `--source`."""
    for option in (
        click.option("--source", metavar="TOPIC[:PARTITION]", help="Only what came from there."),
        click.option(
            "--error",
            metavar="CLASS",
            help='Only this class of errors, like TimeoutError, app.PaymentError or "*Error".',
        ),
        click.option("--partition", "-p", type=PARTITION, metavar="N", help="Only this of the dead letter topic."),
    ):
        function = option(function)
    return function


def make_filter(partition: int | None, offset: int | None, error: str | None, source: str | None) -> DeadLetterFilter:
    """Makes a filter from the options."""
    if offset is not None and partition is None:
        raise click.UsageError("--offset makes sense with --partition only: each partition has its own")
    try:
        return DeadLetterFilter(partition, offset, error, source)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


@contextmanager
def open_consumer(session: AdminSession, **settings: str) -> Iterator[Consumer]:
    """Opens a consumer for dead letters."""
    with Consumer({**session.settings, **SETTINGS, **settings}) as consumer:
        yield consumer


def warn_foreign(topic: str, foreign: int, records: int) -> None:
    """Reports records of a dead letter topic that are no dead letters."""
    if foreign:
        are = plural(foreign, "is no dead letter", "are no dead letters")
        output.note(f"{foreign:,} of {output.count_of(records, 'record')} of {topic} {are}, and left out")
