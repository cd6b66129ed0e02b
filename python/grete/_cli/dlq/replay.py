"""Command `grete dlq replay`."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import click

from grete._cli.dlq.options import filter_options, make_filter, open_consumer, warn_foreign
from grete._cli.param_ranges import OFFSET, ParsedType
from grete._cli.session import AdminSession, admin_command, confirm, confirm_options
from grete._cli.terminal import output
from grete._cli.terminal.interrupt import Interrupt
from grete._cli.terminal.progress import Progress
from grete._config import parsers
from grete._dlq.checkpoint import (
    Checkpoint,
    ReplayHistory,
    check_no_members,
    check_within_log,
    default_group,
    group_for,
    load_history,
)
from grete._dlq.rate_limiter import RateLimiter
from grete._dlq.reader import DeadLetterReader, OffsetRange, offset_ranges
from grete._dlq.replay import Replay, ReplayPlan, plan_replay
from grete._plural import plural
from grete.client import Producer
from grete.errors import GreteError

# Exit status of a command that Ctrl-C has ended, by the convention of shells.
_INTERRUPTED = 130


def _parse_rate(text: str) -> tuple[int, float]:
    return parsers.parse_rate(int(text) if text.isascii() and text.isdigit() else text)


@click.command()
@click.argument("topic")
@click.option("--to", metavar="TOPIC", help="Target topic.  [default: where each came from]")
@click.option(
    "--rate", type=ParsedType("rate", _parse_rate), metavar="N/s", help="At most so many, like 100/s or 1000/min."
)
@filter_options
@click.option("--offset", type=OFFSET, metavar="N", help="Only this, of --partition.")
@click.option(
    "--group", metavar="NAME", help="Remember what was replayed under this name.  [default: grete-dlq-replay.TOPIC]"
)
@confirm_options
@admin_command
def replay(
    session: AdminSession,
    topic: str,
    to: str | None,
    rate: tuple[int, float] | None,
    partition: int | None,
    error: str | None,
    source: str | None,
    offset: int | None,
    group: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Sends the dead letters of TOPIC back to the topics and partitions that they came from.

    Key, value, headers and timestamp are kept. The grete.* headers are removed, except grete.replayed, which counts
    replays. The dead letters themselves stay in TOPIC, see grete dlq purge. Dead letters that arrive during the replay
    are not replayed: a record that fails again waits for the next replay.

    Progress is stored in consumer groups. The next replay continues from there, and records that another selection has
    sent are not sent twice. Only acknowledged records count: after a crash the records of the last second are sent
    again. Kafka deletes the progress after offsets.retention.minutes (7 days): purge before. Ctrl-C ends the command
    cleanly.
    """
    if to == topic:
        raise click.UsageError(f"--to {to} would send the dead letters to where they are")
    wanted = make_filter(partition, offset, error, source)
    base = group or default_group(topic)
    if "?" in base:
        raise click.UsageError('--group takes a name without "?": what is selected stands behind it')
    name = group_for(base, wanted, to)
    everything = offset_ranges(session.admin, topic, partition, session.timeout)
    past = load_history(session.admin, topic, base, to, session.timeout)
    if name in past.groups:
        check_no_members(session.admin, name, session.timeout)
    check_within_log(topic, name, past.before(name), [(span.partition, span.end) for span in everything])
    with open_consumer(session, **{"group.id": name}) as consumer:
        letters = DeadLetterReader(consumer, topic, everything, session.timeout)
        planned = plan_replay(letters, wanted, past)
        if not session.as_json or not planned.count:
            warn_foreign(topic, letters.foreign, letters.records)
        if dry_run:
            _show(session, planned, to)
            return
        if not planned.count:
            _report_nothing(session, topic, planned, past)
            return
        with _open_producer(session) as producer:
            progress = Progress(output.is_terminal(sys.stderr), what="replayed", total=planned.count)
            run = Replay(
                topic,
                consumer,
                producer,
                Checkpoint(consumer, topic, name, past.before(name)),
                selection=wanted,
                history=past,
                to=to,
                rate_limiter=None if rate is None else RateLimiter(*rate),
                idle_timeout=session.timeout,
                on_progress=lambda run: progress.update(
                    run.replayed.total(), f"{planned.count - run.replayed.total():,} left"
                ),
            )
            targets = planned.targets(to)
            run.check_targets(targets)
            confirm(f"Replay {output.count_of(planned.count, 'dead letter')} of {topic} to {_by_topic(targets)}?", yes)
            before = past.before(name)
            where = [
                OffsetRange(span.partition, max(span.begin, before.get(span.partition, 0)), span.end)
                for span in everything
            ]
            with Interrupt() as interrupt:
                _run(session, run, where, interrupt, planned, progress)


@contextmanager
def _open_producer(session: AdminSession) -> Iterator[Producer]:
    producer = Producer(session.settings)
    try:
        yield producer
    finally:
        # All deliverable records are delivered: the remaining ones were given up.
        producer.close(timeout=0.0)


def _run(
    session: AdminSession,
    run: Replay,
    where: list[OffsetRange],
    interrupt: Interrupt,
    planned: ReplayPlan,
    progress: Progress,
) -> None:
    try:
        run.run(where, interrupt)
    except GreteError as error:
        error.add_note(f"replayed before that: {_by_topic(run.replayed)}; the next replay goes on from there")
        raise
    except KeyboardInterrupt:
        raise click.ClickException(
            f"given up: {output.count_of(run.pending, 'record')} {plural(run.pending, 'was', 'were')} sent and not "
            f"acknowledged, the next replay sends {plural(run.pending, 'it', 'them')} again; "
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
        complete=not interrupt.requested,
    )
    if interrupt.requested:
        output.note("interrupted: the same command goes on from here")
        raise click.exceptions.Exit(_INTERRUPTED)


def _show(session: AdminSession, planned: ReplayPlan, to: str | None) -> None:
    rows = [(source, error, to or source, count) for (source, error), count in planned.counts.most_common()]
    session.rows(("source", "error", "to", "count"), rows, if_empty="nothing to replay")
    if planned.before:
        output.note(f"{planned.before:,} more were replayed before")
    confirm("", yes=False, dry_run=True)


def _report_nothing(session: AdminSession, topic: str, planned: ReplayPlan, past: ReplayHistory) -> None:
    if planned.before:
        groups = " ".join(f"'{group}'" for group in past.groups)
        message = (
            f"nothing to replay: all {planned.before:,} were replayed before. To send them again: grete groups delete "
            f"{groups} forgets that, or --group with another name does not know it"
        )
    else:
        message = f"nothing to replay: {topic} has no such dead letter"
    if session.as_json:
        session.json({"replayed": 0, "before": planned.before, "to": {}, "complete": True})
    else:
        output.note(message)


def _by_topic(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} to {topic}" for topic, count in counts.most_common()) or "none"
