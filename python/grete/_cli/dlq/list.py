"""Command `grete dlq list`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

import click

from grete._cli.dlq.options import filter_options, make_filter, open_consumer, warn_foreign
from grete._cli.param_ranges import LIMIT, MOMENT
from grete._cli.session import AdminSession, admin_command
from grete._cli.terminal import output
from grete._cli.terminal.escapes import printable
from grete._dlq.dead_letter import DeadLetter, format_time
from grete._dlq.reader import DeadLetterReader, offset_ranges

# Longest error text in a table, in characters.
_MAX_TEXT = 60
# Most rows of a table without --limit.
_MAX_ROWS = 1000


@click.command("list")
@click.argument("topic")
@filter_options
@click.option(
    "--since", type=MOMENT, metavar="TIME|AGO", help="Only what has failed for the last time since then, like 2h."
)
@click.option(
    "--limit",
    "-n",
    type=LIMIT,
    help=f"Show so many at most.  [default: {_MAX_ROWS:,}; with --json all]",
)
@click.option("--summary", is_flag=True, help="Only count, by where they came from and why they failed.")
@admin_command
def list_dead_letters(
    session: AdminSession,
    topic: str,
    partition: int | None,
    error: str | None,
    source: str | None,
    since: datetime | None,
    limit: int | None,
    summary: bool,
) -> None:
    """Lists the dead letters of TOPIC: where they came from, how often they were tried, and why they failed."""
    if summary and limit is not None:
        raise click.UsageError("--summary counts all: leave out --limit")
    wanted = make_filter(partition, None, error, source)
    where = offset_ranges(session.admin, topic, partition, session.timeout)
    with open_consumer(session) as consumer:
        letters = DeadLetterReader(consumer, topic, where, session.timeout)
        found = (letter for letter in letters if wanted.matches(letter) and _since(letter, since))
        if summary:
            _summarise(session, topic, found)
        elif session.as_json:
            for letter in islice(found, limit):
                session.json(to_json(letter))
        else:
            _table(session, topic, found, limit or _MAX_ROWS)
        warn_foreign(topic, letters.foreign, letters.records)


def _since(letter: DeadLetter, since: datetime | None) -> bool:
    return since is None or (letter.last_failed is not None and letter.last_failed >= since)


def _table(session: AdminSession, topic: str, found: Iterator[DeadLetter], limit: int) -> None:
    rows = [
        (
            letter.message.partition,
            letter.message.offset,
            letter.origin,
            letter.group,
            letter.attempts,
            letter.error_class,
            truncate(letter.error_message),
            format_time(letter.first_failed, "seconds"),
            format_time(letter.last_failed, "seconds"),
        )
        for letter in islice(found, limit)
    ]
    fields = ("partition", "offset", "source", "group", "attempts", "error", "message", "first_failed", "last_failed")
    session.rows(fields, rows, if_empty=f"no dead letters in {topic}")
    left = sum(1 for _ in found)
    if left:
        output.note(f"and {left:,} more: --limit shows more of them, --summary counts them")


def _summarise(session: AdminSession, topic: str, found: Iterable[DeadLetter]) -> None:
    counted = Counter((letter.source_topic, letter.error_class) for letter in found)
    rows = [(source, error, count) for (source, error), count in counted.most_common()]
    session.rows(("source", "error", "count"), rows, if_empty=f"no dead letters in {topic}")


def to_json(letter: DeadLetter) -> dict[str, object]:
    """Returns a dead letter and its failure as a JSON object."""
    return {
        "partition": letter.message.partition,
        "offset": letter.message.offset,
        "source_topic": letter.source_topic,
        "source_partition": letter.source_partition,
        "source_offset": letter.source_offset,
        "group": letter.group,
        "attempts": letter.attempts,
        "error_class": letter.error_class,
        "error_message": letter.error_message,
        "first_failed": format_time(letter.first_failed),
        "last_failed": format_time(letter.last_failed),
        "replayed": letter.replay_count,
    }


def truncate(text: str) -> str:
    """Returns text on one line, cut for a table."""
    line = " ".join(text.split())
    return printable(line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…")
