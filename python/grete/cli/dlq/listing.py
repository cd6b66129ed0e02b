"""`grete dlq list`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

import click

from grete.cli.dlq.options import TimeType, reader, say_foreign, selecting, selection
from grete.cli.render import printable
from grete.cli.session import Session, admin_command
from grete.dlq.letter import Letter, iso
from grete.dlq.reading import Letters, spans

# Characters of an error's text in a table.
_CUT = 60
# Rows of a table, unless --limit says something else.
_ROWS = 1000


@click.command("list")
@click.argument("topic")
@selecting
@click.option(
    "--since", type=TimeType(), metavar="TIME|AGO", help="Only what has failed for the last time since then, like 2h."
)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    help=f"Show so many at most.  [default: {_ROWS:,}; with --json all]",
)
@click.option("--summary", is_flag=True, help="Only count, by where they came from and why they failed.")
@admin_command
def list_letters(
    session: Session,
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
    wanted = selection(partition, None, error, source)
    where = spans(session.admin, topic, partition, session.timeout)
    with reader(session) as consumer:
        letters = Letters(consumer, topic, where, session.timeout)
        found = (letter for letter in letters if wanted.covers(letter) and _since(letter, since))
        if summary:
            _summarise(session, topic, found)
        elif session.as_json:
            for letter in islice(found, limit):
                session.json(as_json(letter))
        else:
            _table(session, topic, found, limit or _ROWS)
        say_foreign(topic, letters.foreign, letters.records)


def _since(letter: Letter, since: datetime | None) -> bool:
    return since is None or (letter.last_failed is not None and letter.last_failed >= since)


def _table(session: Session, topic: str, found: Iterator[Letter], limit: int) -> None:
    rows = [
        (
            letter.message.partition,
            letter.message.offset,
            letter.origin,
            letter.group,
            letter.attempts,
            letter.error,
            cut(letter.text),
            iso(letter.first_failed, "seconds"),
            iso(letter.last_failed, "seconds"),
        )
        for letter in islice(found, limit)
    ]
    fields = ("partition", "offset", "source", "group", "attempts", "error", "message", "first_failed", "last_failed")
    session.rows(fields, rows, nothing=f"no dead letters in {topic}")
    left = sum(1 for _ in found)
    if left:
        click.echo(f"and {left:,} more: --limit shows more of them, --summary counts them", err=True)


def _summarise(session: Session, topic: str, found: Iterable[Letter]) -> None:
    counted = Counter((letter.source, letter.error) for letter in found)
    rows = [(source, error, count) for (source, error), count in counted.most_common()]
    session.rows(("source", "error", "count"), rows, nothing=f"no dead letters in {topic}")


def as_json(letter: Letter) -> dict[str, object]:
    """What has happened to the record."""
    return {
        "partition": letter.message.partition,
        "offset": letter.message.offset,
        "source_topic": letter.source,
        "source_partition": letter.source_partition,
        "source_offset": letter.source_offset,
        "group": letter.group,
        "attempts": letter.attempts,
        "error_class": letter.error,
        "error_message": letter.text,
        "first_failed": iso(letter.first_failed),
        "last_failed": iso(letter.last_failed),
        "replayed": letter.replayed,
    }


def cut(text: str) -> str:
    """On one line, and no longer than a table can bear."""
    line = " ".join(text.split())
    return printable(line if len(line) <= _CUT else f"{line[: _CUT - 1]}…")
