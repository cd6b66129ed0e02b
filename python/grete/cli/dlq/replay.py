"""`grete dlq replay`."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import click

from grete import settings as limits
from grete.cli.dlq.options import reader, say_foreign, selecting, selection
from grete.cli.interrupt import Interrupt
from grete.cli.progress import Progress
from grete.cli.session import Session, admin_command, confirm
from grete.client import Producer
from grete.dlq.pace import Pace
from grete.dlq.progress import Bookmark, History, check_alone, check_within, default_name, group_name, history
from grete.dlq.reading import Letters, Span, spans
from grete.dlq.replay import Plan, Replay, plan
from grete.errors import GreteError

# What a shell says of a command that Ctrl-C has ended.
_INTERRUPTED = 130


class RateType(click.ParamType[tuple[int, float]]):
    """Like 100/s."""

    name = "rate"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, float]:
        """Records per seconds."""
        text = str(value)
        try:
            return limits.rate(int(text) if text.isascii() and text.isdigit() else text)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("topic")
@click.option("--to", metavar="TOPIC", help="Where to.  [default: where each came from]")
@click.option("--rate", type=RateType(), metavar="N/s", help="At most so many, like 100/s or 1000/min.")
@selecting
@click.option("--offset", type=click.IntRange(min=0), metavar="N", help="Only this, of --partition.")
@click.option(
    "--group", metavar="NAME", help="Remember what was replayed under this name.  [default: grete-dlq-replay.TOPIC]"
)
@click.option("--dry-run", is_flag=True, help="Only say what would be replayed.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@admin_command
def replay(
    session: Session,
    topic: str,
    to: str | None,
    rate: tuple[int, float] | None,
    partition: int | None,
    error: str | None,
    source: str | None,
    offset: int | None,
    group: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Sends the dead letters of TOPIC back to the topics and partitions that they came from.

    Key, value, headers and timestamp are kept; the grete.* headers go, but for grete.replayed, which counts. The dead
    letters stay where they are, see grete dlq purge. What comes while it runs is not replayed: a record that fails
    again waits for the next replay.

    What was replayed is remembered in consumer groups, so that the next replay goes on from there, and what another
    selection has sent is not sent twice. Only what is acknowledged counts; after a crash what was sent in the last
    second is sent again. Kafka forgets after offsets.retention.minutes (7 days): purge before. Ctrl-C ends it cleanly.
    """
    if to == topic:
        raise click.UsageError(f"--to {to} would send the dead letters to where they are")
    wanted = selection(partition, offset, error, source)
    base = group or default_name(topic)
    if "?" in base:
        raise click.UsageError('--group takes a name without "?": what is selected stands behind it')
    name = group_name(base, wanted, to)
    everything = spans(session.admin, topic, partition, session.timeout)
    past = history(session.admin, topic, base, to, session.timeout)
    if name in past.groups:
        check_alone(session.admin, name, session.timeout)
    check_within(topic, name, past.before(name), [(span.partition, span.end) for span in everything])
    with reader(session, **{"group.id": name}) as consumer:
        letters = Letters(consumer, topic, everything, session.timeout)
        planned = plan(letters, wanted, past)
        if not session.as_json or not planned.count:
            say_foreign(topic, letters.foreign, letters.records)
        if dry_run:
            _show(session, planned, to)
            return
        if not planned.count:
            _nothing(session, topic, planned, past)
            return
        with _producing(session) as producer:
            progress = Progress(sys.stderr.isatty(), what="replayed")
            run = Replay(
                topic,
                consumer,
                producer,
                Bookmark(consumer, topic, name, past.before(name)),
                selection=wanted,
                past=past,
                to=to,
                pace=None if rate is None else Pace(*rate),
                patience=session.timeout,
                watch=lambda run: progress.update(
                    run.replayed.total(), f"{planned.count - run.replayed.total():,} left"
                ),
            )
            targets = planned.targets(to)
            run.check_targets(targets)
            confirm(f"Replay {planned.count:,} dead letters of {topic} to {_by_topic(targets)}?", yes)
            before = past.before(name)
            where = [
                Span(span.partition, max(span.begin, before.get(span.partition, 0)), span.end) for span in everything
            ]
            with Interrupt() as interrupt:
                _run(session, run, where, interrupt, planned, progress)


@contextmanager
def _producing(session: Session) -> Iterator[Producer]:
    producer = Producer(session.settings)
    try:
        yield producer
    finally:
        # All that could be delivered is: what is left was given up.
        producer.close(timeout=0.0)


def _run(
    session: Session, run: Replay, where: list[Span], interrupt: Interrupt, planned: Plan, progress: Progress
) -> None:
    try:
        run.run(where, interrupt)
    except GreteError as error:
        error.add_note(f"replayed before that: {_by_topic(run.replayed)}; the next replay goes on from there")
        raise
    except KeyboardInterrupt:
        raise click.ClickException(
            f"given up: {run.pending:,} records were sent and are not acknowledged, the next replay sends them again; "
            f"replayed: {_by_topic(run.replayed)}"
        ) from None
    finally:
        progress.finish(run.replayed.total())
    count = run.replayed.total()
    session.done(
        f"{count:,} replayed: {_by_topic(run.replayed)}",
        replayed=count,
        before=planned.before,
        to=dict(run.replayed),
        complete=not interrupt.asked,
    )
    if interrupt.asked:
        click.echo("interrupted: the same command goes on from here", err=True)
        raise click.exceptions.Exit(_INTERRUPTED)


def _show(session: Session, planned: Plan, to: str | None) -> None:
    rows = [(source, error, to or source, count) for (source, error), count in planned.wanted.most_common()]
    session.rows(("source", "error", "to", "count"), rows, nothing="nothing to replay")
    if planned.before:
        click.echo(f"{planned.before:,} more were replayed before", err=True)
    if rows:
        click.echo("nothing is sent yet: leave out --dry-run to do it", err=True)


def _nothing(session: Session, topic: str, planned: Plan, past: History) -> None:
    if planned.before:
        groups = " ".join(f"'{group}'" for group in past.groups)
        said = (
            f"nothing to replay: all {planned.before:,} were replayed before. To send them again: grete groups delete "
            f"{groups} forgets that, or --group with another name does not know it"
        )
    else:
        said = f"nothing to replay: {topic} has no such dead letter"
    if session.as_json:
        session.json({"replayed": 0, "before": planned.before, "to": {}, "complete": True})
    else:
        click.echo(said, err=True)


def _by_topic(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} to {topic}" for topic, count in counts.most_common()) or "none"
