"""Command `grete consume TOPIC`."""

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import click

from grete._cli.options import kafka_options, kafka_settings, resolve_kafka_settings, set_up_logging
from grete._cli.param_ranges import (
    LIMIT,
    PARTITION,
    POSITION,
    POSITION_HELP,
    POSITION_METAVAR,
    FromEnd,
    ParsedType,
    Position,
)
from grete._cli.positions import limit as limit_to_log
from grete._cli.terminal import message_format, output
from grete._cli.terminal.escapes import printable, unescaped
from grete._cli.terminal.progress import Progress
from grete._config import layers
from grete._native import Message, Messages
from grete.client import Consumer
from grete.errors import GreteError

Template = Callable[[Iterable[Message], bool], bytes]
Ends = dict[tuple[str, int], int]

# Seconds that a poll waits before the next check for the end.
_POLL_TIMEOUT = 0.25


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    type=POSITION,
    metavar=POSITION_METAVAR,
    help=f"Where to begin: {POSITION_HELP}. [default: latest; earliest with --until-end]",
)
@click.option("--partition", "-p", "wanted", type=PARTITION, multiple=True, help="Only this; repeatable.")
@click.option("--limit", "-n", type=LIMIT, help="Stop after so many messages.")
@click.option("--group", help="Read as a member of this consumer group, and commit what was printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option(
    "--exact", is_flag=True, help="With --json: values as strings, byte for byte, also those that are JSON themselves."
)
@click.option(
    "--key-separator",
    type=ParsedType("separator", unescaped),
    metavar="SEP",
    help="Print KEY, this text, VALUE. \\t, \\n, \\r, \\0, \\\\ and \\xNN are escapes.",
)
@click.option(
    "--format",
    "template",
    type=ParsedType("format", message_format.template),
    metavar="TEXT",
    help="Print this: {topic}, {partition}, {offset}, {timestamp}, {time}, {key}, {value} and {headers} are fields.",
)
@click.option("--follow/--until-end", default=True, help="Wait for more, or stop at what was the end when it began.")
@click.option("--quiet", "-q", is_flag=True, help="Do not say how many records were printed, nor show progress.")
@kafka_options
def consume(
    topic: str,
    start: Position | None,
    wanted: tuple[int, ...],
    limit: int | None,
    group: str | None,
    as_json: bool,
    exact: bool,
    key_separator: bytes | None,
    template: Template | None,
    follow: bool,
    quiet: bool,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Prints a topic's messages: the values, one a line, or everything with --json.

    Without --group nothing is committed and no group is disturbed. When the output does not go to the terminal, a line
    there shows count, rate and lag. Ctrl-C ends the command. An offset that a partition does not have is named, and
    the nearest one is taken.
    """
    if group and (wanted or isinstance(start, (int, datetime, FromEnd)) or not follow):
        raise click.UsageError(
            "--group decides on partitions and offsets: leave out --partition and --until-end, and begin --from "
            "earliest or latest"
        )
    if as_json + (key_separator is not None) + (template is not None) > 1:
        raise click.UsageError("--json, --key-separator and --format exclude each other")
    if exact and not as_json:
        raise click.UsageError("--exact goes with --json")
    output.check_stdout()
    set_up_logging("WARNING")
    command_line = layers.parse_layer({}, kafka_settings(bootstrap, pairs), "command line")
    if group:
        command_line.kafka["group.id"] = layers.SettingValue(group, "command line")
        command_line.kafka["auto.offset.reset"] = layers.SettingValue(start or "latest", "command line")
    terminal = output.is_terminal(sys.stdout)
    printer = _Printer(_format(as_json, exact, key_separator, template, terminal), quiet=quiet, commit=bool(group))
    try:
        with Consumer(resolve_kafka_settings(command_line)) as consumer:
            if start is None:
                start = "latest" if follow else "earliest"
            ends = _assign_or_subscribe(consumer, topic, start, wanted, group, follow)
            printer.run(_poll_until_end(consumer, ends, limit), consumer)
    except GreteError as error:
        raise click.ClickException(printable(str(error))) from None
    except KeyboardInterrupt:
        pass  # the usual way to end a tail
    printer.close()


def _format(
    as_json: bool, exact: bool, key_separator: bytes | None, template: Template | None, terminal: bool
) -> message_format.Format:
    if as_json:
        return lambda messages: message_format.format_json(messages, exact=exact)
    if template is not None:
        return lambda messages: template(messages, terminal)
    return lambda messages: message_format.format_text(messages, escape_control=terminal, key_separator=key_separator)


def _assign_or_subscribe(
    consumer: Consumer, topic: str, start: Position, wanted: tuple[int, ...], group: str | None, follow: bool
) -> Ends | None:
    """Subscribes or assigns. Returns the end of each partition if the command stops there, else None."""
    there = consumer.partitions(topic)  # also for a group, so that a topic that does not exist is named at once
    if group:
        consumer.subscribe([topic])
        return None
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise click.UsageError(f"{topic} has no partition {missing[0]}: there are {len(there)}, from 0 to {max(there)}")
    partitions = wanted or tuple(there)
    in_log = isinstance(start, (int, FromEnd))
    ends = None
    if in_log or not follow:
        ends = consumer.offsets([(topic, partition, "latest") for partition in partitions])
    if isinstance(start, (int, FromEnd)) and ends is not None:
        starts = consumer.offsets([(topic, partition, "earliest") for partition in partitions])
        found = limit_to_log(start, starts, ends)
        consumer.assign([(*at, offset) for at, offset in found.items()])
    elif not isinstance(start, (int, FromEnd)):
        consumer.assign([(topic, partition, start) for partition in partitions])
    return None if follow else ends


def _poll_until_end(consumer: Consumer, ends: Ends | None, limit: int | None) -> Iterator[Messages]:
    """Yields batches up to the ends and the limit, with empty batches in between."""
    left = limit
    open_ends = dict(ends) if ends is not None else None
    while left != 0 and open_ends != {}:
        messages = consumer.poll(_POLL_TIMEOUT, 10_000 if left is None else min(left, 10_000))
        if open_ends is not None and messages:
            end = open_ends.get((messages.topic, messages.partition), -1)
            messages = messages[: _count_before(messages, end)]
        if left is not None:
            left -= len(messages)
        yield messages
        if open_ends is not None:
            # Positions count, not the messages' offsets: offsets after the last record may hold none (control records).
            reached = [key for key, end in open_ends.items() if (consumer.position(*key) or 0) >= end]
            for key in reached:
                del open_ends[key]


def _count_before(messages: Messages, end: int) -> int:
    """Returns the number of messages before offset `end`."""
    if messages.last_offset < end:
        return len(messages)
    return sum(1 for offset in messages.offsets if offset < end)


class _Printer:
    """Writes messages to standard output, and counts them."""

    def __init__(self, lines: message_format.Format, *, quiet: bool, commit: bool) -> None:
        self._lines = lines
        self._commit = commit
        self._quiet = quiet
        shown = output.is_terminal(sys.stderr) and not output.is_terminal(sys.stdout) and not quiet
        self._progress = Progress(shown, what="records")
        self._count = 0
        self._lags: Ends = {}

    def run(self, batches: Iterator[Messages], consumer: Consumer) -> None:
        """Prints all batches."""
        try:
            for messages in batches:
                output.check_stdout()  # the reader may close the pipe while no messages arrive
                if messages:
                    # This writes everything or raises, so committed messages have been written.
                    sys.stdout.buffer.write(self._lines(messages))
                    self._count += len(messages)
                    lag = max(0, messages.high_watermark - messages.next_offset)
                    self._lags[messages.topic, messages.partition] = lag
                    if self._commit:
                        consumer.commit(messages)
                self._progress.update(self._count, f"lag {sum(self._lags.values()):,}" if self._lags else None)
        finally:
            self._progress.finish(self._count, self._partitions)

    def close(self) -> None:
        """Says how many records were printed, unless the progress line has said it."""
        if not self._quiet and not self._progress.was_shown:
            partitions = f", {self._partitions}" if self._lags else ""
            output.print_stderr(f"{output.count_of(self._count, 'record')}{partitions}")

    @property
    def _partitions(self) -> str:
        return output.count_of(len(self._lags), "partition")
