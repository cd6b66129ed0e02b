"""`grete produce TOPIC`."""

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import click

from grete import config
from grete.cli.interrupt import Interrupt, Interrupted
from grete.cli.options import kafka_options, kafka_settings, resolved, set_up_logging
from grete.cli.progress import Progress
from grete.cli.records import Headers, Portion, Shape, from_file, from_lines
from grete.client import Deliveries, Producer
from grete.errors import GreteError, RecordTooLargeError

# How long a flush waits before the progress line is told.
_LOOK = 0.25
# Longer than a record may be under way: what cannot be delivered is then told by its own error.
_MAX_BLOCK_MS = "600000"
# A topic that nobody has made is noticed before anything is read.
_TOPIC_TIMEOUT = 15.0


class HeaderType(click.ParamType[tuple[str, bytes | None]]):
    """NAME=VALUE."""

    name = "header"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, bytes]:
        """What was given, understood."""
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f'it is NAME=VALUE, not "{value}"', param, ctx)
        return name, _as_bytes(text)


@click.command()
@click.argument("topic")
@click.option(
    "--file",
    "-f",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="Read this instead of standard input, as one record; repeatable.",
)
@click.option("--lines", is_flag=True, help="With --file: one record a line, as with standard input.")
@click.option("--key", help="The key of all records.")
@click.option("--key-separator", metavar="SEP", help="Each line is KEY, this text, VALUE.")
@click.option("--header", "-H", "headers", type=HeaderType(), multiple=True, help="NAME=VALUE; repeatable.")
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Where all records go. [default: by their keys]")
@click.option("--null-value", metavar="TEXT", help="A value that is this text becomes null, a tombstone.")
@click.option("--json", "as_json", is_flag=True, help="Each line is an object as `grete consume --json` prints it.")
@click.option("--keep-partitions", is_flag=True, help="With --json: to the partition that the object names.")
@kafka_options
def produce(
    topic: str,
    files: Sequence[Path],
    lines: bool,
    key: str | None,
    key_separator: str | None,
    headers: Headers,
    partition: int | None,
    null_value: str | None,
    as_json: bool,
    keep_partitions: bool,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Writes to a topic what comes on standard input, one record a line, or files.

    Ends when all is acknowledged, with status 1 if something could not be delivered. Ctrl-C stops reading and sends
    what was read; a second one gives that up. Compression and the like are Kafka settings: -k compression.type=zstd.
    """
    _check(
        {
            "--lines without --file": lines and not files,
            "--key with --key-separator": key is not None and key_separator is not None,
            "an empty --key-separator": key_separator == "",
            "--json with --key, --key-separator, --header or --null-value": as_json
            and bool(headers or any(option is not None for option in (key, key_separator, null_value))),
            "--keep-partitions without --json": keep_partitions and not as_json,
            "--keep-partitions with --partition": keep_partitions and partition is not None,
        }
    )
    shape = Shape(
        key=None if key is None else _as_bytes(key),
        key_separator=None if key_separator is None else _as_bytes(key_separator),
        null_value=None if null_value is None else _as_bytes(null_value),
        headers=headers,
        partition=partition,
        as_json=as_json,
        keep_partitions=keep_partitions,
    )
    set_up_logging("WARNING")
    command_line = config.layer({}, kafka_settings(bootstrap, pairs), "command line")
    try:
        producer = Producer(resolved(command_line, {"max.block.ms": _MAX_BLOCK_MS}))
        try:
            count = producer.partitions(topic, _TOPIC_TIMEOUT)
            if partition is not None and partition >= count:
                raise click.UsageError(f"{topic} has no partition {partition}: there are {count}")
            sending = _Sending(producer, topic)
            with Interrupt() as interrupt:
                sending.run(_portions(files, lines, shape, interrupt), interrupt)
        finally:
            # All that could be delivered is: what is left was given up.
            producer.close(timeout=0.0)
    except GreteError as error:
        raise click.ClickException(str(error)) from None
    sending.judge()


def _check(senseless: Mapping[str, bool]) -> None:
    for what, given in senseless.items():
        if given:
            raise click.UsageError(f"{what} makes no sense")


def _as_bytes(text: str) -> bytes:
    """The bytes that were typed: Python keeps those that are not UTF-8 as surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _standard_input() -> BinaryIO:
    return sys.stdin.buffer


def _portions(files: Sequence[Path], lines: bool, shape: Shape, interrupt: Interrupt) -> Iterator[Portion]:
    if not files:
        yield from from_lines(interrupt.reading(_standard_input()), "standard input", shape)
    for path in files:
        if lines or shape.as_json:
            with path.open("rb") as stream:
                yield from from_lines(interrupt.reading(stream), str(path), shape)
        else:
            yield from from_file(path, shape)


class _Sending:
    """Portions under way, in order, and what became of those before them."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._progress = Progress(sys.stderr.isatty() and not sys.stdin.isatty(), what="acknowledged")
        self._under_way: deque[tuple[Deliveries, Portion]] = deque()
        self._pending = self._acknowledged = self._failed = 0
        self._first_failure = ""
        # What ended it before the input did.
        self._stopped: str | None = None

    def run(self, portions: Iterator[Portion], interrupt: Interrupt) -> None:
        """Sends until the input ends, something fails, or Ctrl-C; then waits for what is under way."""
        try:
            try:
                for portion in portions:
                    self._send(portion)
                    if self._failed or interrupt.asked:
                        break
            except Interrupted:
                pass
            except (GreteError, click.ClickException) as error:
                self._stopped = error.message if isinstance(error, click.ClickException) else str(error)
            if interrupt.asked and sys.stderr.isatty():
                click.echo("\nsending what was read; Ctrl-C again gives it up", err=True)
            self._flush()
        except KeyboardInterrupt:
            self._settle()
            self._stopped = f"given up: {self._pending:,} records are not acknowledged"
        finally:
            self._progress.finish(self._acknowledged)

    def _send(self, portion: Portion) -> None:
        taken: Deliveries | None = None
        try:
            taken = self._producer.produce_many(self._topic, portion.records, partition=portion.partition)
        except GreteError as error:
            taken = getattr(error, "deliveries", None)  # those before the one that was refused
            if isinstance(error, RecordTooLargeError):
                place = portion.place(0 if taken is None else len(taken))
                raise click.ClickException(f"{place}: {error}") from None
            raise
        finally:
            if taken is not None:
                self._under_way.append((taken, portion))
                self._pending += len(taken)
        self._settle()

    def _flush(self) -> None:
        while self._under_way:
            try:
                self._producer.flush(_LOOK)
            except TimeoutError:
                pass  # each record's own time ends it
            self._settle()

    def _settle(self) -> None:
        while self._under_way and self._under_way[0][0].done:
            deliveries, portion = self._under_way.popleft()
            errors = deliveries.errors
            if errors and not self._failed:
                index, error = errors[0]
                self._first_failure = f"{portion.place(index)}: {error}"
            self._failed += len(errors)
            self._acknowledged += len(deliveries) - len(errors)
            self._pending -= len(deliveries)
        self._progress.update(self._acknowledged, f"{self._pending:,} pending")

    def judge(self) -> None:
        """Raises what there is to say when not everything was delivered."""
        said = [self._stopped] if self._stopped else []
        if self._failed:
            total = self._acknowledged + self._failed
            said.append(f"{self._failed:,} of {total:,} records were not delivered; the first, {self._first_failure}")
        if said:
            raise click.ClickException("; ".join([*said, f"acknowledged: {self._acknowledged:,}"]))
