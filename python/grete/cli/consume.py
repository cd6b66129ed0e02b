"""`grete consume TOPIC`."""

import os
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Literal

import click

from grete import config
from grete._core import Messages
from grete.cli import render
from grete.cli.options import kafka_options, kafka_settings, resolved, set_up_logging
from grete.cli.progress import Progress
from grete.client import Consumer
from grete.errors import GreteError

Start = int | Literal["earliest", "latest"] | datetime

# How long a poll waits before it looks whether the end has come without a record.
_LOOK = 0.25


class StartType(click.ParamType[Start]):
    """earliest, latest, an offset or an ISO 8601 time."""

    name = "start"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """What was given, understood."""
        text = str(value)
        if text in ("earliest", "latest"):
            return text  # type: ignore[return-value]
        if text.isascii() and text.isdigit():
            return int(text)
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            self.fail(f'"{text}" is neither earliest, latest, an offset nor a time like 2026-01-31T12:00', param, ctx)


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    type=StartType(),
    metavar="earliest|latest|OFFSET|TIME",
    help="Where to begin; a time is ISO 8601. [default: latest; earliest with --until-end]",
)
@click.option("--partition", "-p", "wanted", type=click.IntRange(min=0), multiple=True, help="Only this; repeatable.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Stop after so many messages.")
@click.option("--group", help="Read as a member of this consumer group, and commit what was printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--follow/--until-end", default=True, help="Wait for more, or stop at what was the end when it began.")
@kafka_options
def consume(
    topic: str,
    start: Start | None,
    wanted: tuple[int, ...],
    limit: int | None,
    group: str | None,
    as_json: bool,
    follow: bool,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Prints a topic's messages: the values, one a line, or everything with --json.

    Without --group nothing is committed and no group is disturbed. When the output does not go to the terminal, a line
    there shows count, rate and lag. Ctrl-C ends it.
    """
    if group and (wanted or isinstance(start, (int, datetime)) or not follow):
        raise click.UsageError(
            "--group decides on partitions and offsets: leave out --partition and --until-end, and begin --from "
            "earliest or latest"
        )
    set_up_logging("WARNING")
    command_line = config.layer({}, kafka_settings(bootstrap, pairs), "command line")
    if group:
        command_line.kafka["group.id"] = config.Value(group, "command line")
        command_line.kafka["auto.offset.reset"] = config.Value(start or "latest", "command line")
    try:
        with Consumer(resolved(command_line)) as consumer:
            begin = start or ("latest" if follow else "earliest")
            ends = _begin(consumer, topic, begin, wanted, group, follow)
            _print(_batches(consumer, ends, limit), consumer, as_json=as_json, commit=bool(group))
    except GreteError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        pass  # the usual way to end a tail
    except BrokenPipeError:
        # The reader has gone; give the interpreter's last flush somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _begin(
    consumer: Consumer, topic: str, start: Start, wanted: tuple[int, ...], group: str | None, follow: bool
) -> dict[tuple[str, int], int] | None:
    """Subscribes or assigns. Returns where each partition ends, if that is where to stop."""
    if group:
        consumer.subscribe([topic])
        return None
    there = consumer.partitions(topic)
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise click.UsageError(f"{topic} has no partition {missing[0]}: there are {len(there)}, from 0 to {max(there)}")
    partitions = wanted or tuple(there)
    ends = None if follow else consumer.offsets([(topic, partition, "latest") for partition in partitions])
    consumer.assign([(topic, partition, start) for partition in partitions])
    return ends


def _batches(consumer: Consumer, ends: dict[tuple[str, int], int] | None, limit: int | None) -> Iterator[Messages]:
    """Batches up to the ends and the limit; empty ones in between."""
    left = limit
    open_ends = dict(ends) if ends is not None else None
    while left != 0 and open_ends != {}:
        messages = consumer.poll(_LOOK, 10_000 if left is None else min(left, 10_000))
        if open_ends is not None and messages:
            end = open_ends.get((messages.topic, messages.partition), -1)
            messages = messages[: _below(messages, end)]
        if left is not None:
            left -= len(messages)
        yield messages
        if open_ends is not None:
            # Positions, not the messages' offsets: what follows the last record may hold none (control records).
            reached = [key for key, end in open_ends.items() if (consumer.position(*key) or 0) >= end]
            for key in reached:
                del open_ends[key]


def _below(messages: Messages, end: int) -> int:
    """How many of the messages lie before offset `end`."""
    if messages.last_offset < end:
        return len(messages)
    return sum(1 for offset in messages.offsets if offset < end)


def _print(batches: Iterator[Messages], consumer: Consumer, *, as_json: bool, commit: bool) -> None:
    out = sys.stdout.buffer
    terminal = sys.stdout.isatty()
    progress = Progress(sys.stderr.isatty() and not terminal)
    lines: Callable[[Messages], bytes] = (
        render.as_json if as_json else lambda m: render.as_text(m, escape_control=terminal)
    )
    count = 0
    lags: dict[tuple[str, int], int] = {}
    try:
        for messages in batches:
            if messages:
                out.write(lines(messages))
                out.flush()
                count += len(messages)
                lags[messages.topic, messages.partition] = max(0, messages.high_watermark - messages.next_offset)
                if commit:
                    consumer.commit(messages)
            progress.update(count, f"lag {sum(lags.values()):,}" if lags else None)
    finally:
        progress.finish(count)
