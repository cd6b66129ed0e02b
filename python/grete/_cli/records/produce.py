"""Command `grete produce TOPIC`."""

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import click

from grete._cli.options import kafka_options, kafka_settings, resolve_kafka_settings, set_up_logging
from grete._cli.param_ranges import PARTITION, ParsedType
from grete._cli.records.produce_input import Headers, InputChunk, RecordFormat, read_file, read_lines
from grete._cli.terminal import output
from grete._cli.terminal.escapes import printable, unescaped
from grete._cli.terminal.interrupt import Interrupt, Interrupted
from grete._cli.terminal.progress import Progress
from grete._config import layers
from grete._plural import plural
from grete.client import Deliveries, Producer
from grete.errors import GreteError, RecordTooLargeError, RecordTypeError

# Seconds that a flush waits before the progress line is updated.
_FLUSH_TIMEOUT = 0.25
# Longer than a record may be in flight: the errors of the records themselves report undeliverable ones.
_MAX_BLOCK_MS = "600000"
# Seconds. A topic that does not exist is reported before any input is read.
_TOPIC_TIMEOUT = 15.0


def _parse_header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f'it is NAME=VALUE, not "{text}"')
    return name, _as_bytes(value)


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
@click.option(
    "--key-separator",
    type=ParsedType("separator", unescaped),
    metavar="SEP",
    help="Each line is KEY, this text, VALUE. \\t, \\n, \\r, \\0, \\\\ and \\xNN are escapes.",
)
@click.option(
    "--header", "-H", "headers", type=ParsedType("header", _parse_header), multiple=True, help="NAME=VALUE; repeatable."
)
@click.option("--partition", "-p", type=PARTITION, help="Where all records go. [default: by their keys]")
@click.option("--null-value", metavar="TEXT", help="A value that is this text becomes null, a tombstone.")
@click.option("--json", "as_json", is_flag=True, help="Each line is an object as `grete consume --json` prints it.")
@click.option("--keep-partitions", is_flag=True, help="With --json: to the partition that the object names.")
@click.option("--quiet", "-q", is_flag=True, help="Do not say how many records were written, nor show progress.")
@kafka_options
def produce(
    topic: str,
    files: Sequence[Path],
    lines: bool,
    key: str | None,
    key_separator: bytes | None,
    headers: Headers,
    partition: int | None,
    null_value: str | None,
    as_json: bool,
    keep_partitions: bool,
    quiet: bool,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Writes standard input to a topic, one record a line, or files.

    Ends when all records are acknowledged and prints their number on standard error; with status 1 if some could not be
    delivered. Ctrl-C stops reading and sends the records read so far; a second one gives them up. Compression and the
    like are Kafka settings: -k compression.type=zstd.
    """
    _check_options(
        {
            "--lines without --file": lines and not files,
            "--key with --key-separator": key is not None and key_separator is not None,
            "an empty --key-separator": key_separator == b"",
            "--json with --key, --key-separator, --header or --null-value": as_json
            and bool(headers or any(option is not None for option in (key, key_separator, null_value))),
            "--keep-partitions without --json": keep_partitions and not as_json,
            "--keep-partitions with --partition": keep_partitions and partition is not None,
        }
    )
    shape = RecordFormat(
        key=None if key is None else _as_bytes(key),
        key_separator=key_separator,
        null_value=None if null_value is None else _as_bytes(null_value),
        headers=headers,
        partition=partition,
        as_json=as_json,
        keep_partitions=keep_partitions,
    )
    if not files and sys.stdin is None:
        raise click.UsageError("standard input is closed: redirect a file or a pipe to it, or name files with --file")
    set_up_logging("WARNING")
    command_line = layers.parse_layer({}, kafka_settings(bootstrap, pairs), "command line")
    try:
        producer = Producer(resolve_kafka_settings(command_line, {"max.block.ms": _MAX_BLOCK_MS}))
        try:
            count = producer.partitions(topic, _TOPIC_TIMEOUT)
            if partition is not None and partition >= count:
                raise click.UsageError(f"{topic} has no partition {partition}: there are {count}")
            sender = _InputSender(producer, topic, quiet)
            with Interrupt() as interrupt:
                sender.run(_read_input(files, lines, shape, interrupt), interrupt)
        finally:
            # All deliverable records are delivered: the remaining ones were given up.
            producer.close(timeout=0.0)
    except GreteError as error:
        raise click.ClickException(printable(str(error))) from None
    sender.raise_if_failed()
    if not quiet:
        output.print_stderr(sender.written)


def _check_options(senseless: Mapping[str, bool]) -> None:
    for what, given in senseless.items():
        if given:
            raise click.UsageError(f"{what} makes no sense")


def _as_bytes(text: str) -> bytes:
    """Returns the typed bytes: Python keeps bytes that are not UTF-8 as surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _standard_input() -> BinaryIO:
    return sys.stdin.buffer


def _read_input(files: Sequence[Path], lines: bool, shape: RecordFormat, interrupt: Interrupt) -> Iterator[InputChunk]:
    if not files:
        yield from read_lines(interrupt.reading(_standard_input()), "standard input", shape)
    for path in files:
        if lines or shape.as_json:
            with path.open("rb") as stream:
                yield from read_lines(interrupt.reading(stream), str(path), shape)
        else:
            yield from read_file(path, shape)


class _InputSender:
    """Chunks in flight, in order, and the outcome of those before them."""

    def __init__(self, producer: Producer, topic: str, quiet: bool) -> None:
        self._producer = producer
        self._topic = topic
        shown = output.is_terminal(sys.stderr) and not output.is_terminal(sys.stdin) and not quiet
        self._progress = Progress(shown, what="acknowledged")
        self._in_flight: deque[tuple[Deliveries, InputChunk]] = deque()
        self._pending = self._acknowledged = self._failed = 0
        self._partitions: set[int] = set()
        self._first_failure = ""
        # Reason why sending ended before the input did.
        self._stopped: str | None = None

    def run(self, portions: Iterator[InputChunk], interrupt: Interrupt) -> None:
        """Sends until the input ends, a delivery fails, or Ctrl-C; then waits for the records in flight."""
        try:
            try:
                for portion in portions:
                    self._send(portion)
                    if self._failed or interrupt.requested:
                        break
            except Interrupted:
                pass
            except (GreteError, click.ClickException) as error:
                self._stopped = error.message if isinstance(error, click.ClickException) else str(error)
            if interrupt.requested and output.is_terminal(sys.stderr):
                click.echo("\nsending what was read; Ctrl-C again gives it up", err=True)
            self._flush()
        except KeyboardInterrupt:
            self._collect_completed()
            records = output.count_of(self._pending, "record")
            self._stopped = f"given up: {records} {plural(self._pending, 'is', 'are')} not acknowledged"
        finally:
            self._progress.finish(self._acknowledged)

    def _send(self, portion: InputChunk) -> None:
        deliveries: Deliveries | None = None
        try:
            deliveries = self._producer.produce_many(self._topic, portion.records, partition=portion.partition)
        except GreteError as error:
            deliveries = getattr(error, "deliveries", None)  # the records before the refused one
            if isinstance(error, (RecordTooLargeError, RecordTypeError)):
                before = 0 if deliveries is None else len(deliveries)
                place = portion.location(before if error.index is None else error.index)
                raise click.ClickException(f"{place}: {error}") from None
            raise
        finally:
            if deliveries is not None:
                self._in_flight.append((deliveries, portion))
                self._pending += len(deliveries)
        self._collect_completed()

    def _flush(self) -> None:
        while self._in_flight:
            try:
                self._producer.flush(_FLUSH_TIMEOUT)
            except TimeoutError:
                pass  # each record's own timeout ends the loop
            self._collect_completed()

    def _collect_completed(self) -> None:
        while self._in_flight and self._in_flight[0][0].done:
            deliveries, portion = self._in_flight.popleft()
            errors = deliveries.errors
            if errors and not self._failed:
                index, error = errors[0]
                self._first_failure = f"{portion.location(index)}: {error}"
            self._failed += len(errors)
            self._acknowledged += len(deliveries) - len(errors)
            self._partitions.update(deliveries.partitions)
            self._pending -= len(deliveries)
        self._progress.update(self._acknowledged, f"{self._pending:,} pending")

    @property
    def written(self) -> str:
        """Number of written records, as a sentence."""
        partitions = f", {output.count_of(len(self._partitions), 'partition')}" if self._partitions else ""
        return f"{output.count_of(self._acknowledged, 'record')} written to {self._topic}{partitions}"

    def raise_if_failed(self) -> None:
        """Raises an error if not all records were delivered."""
        messages = [self._stopped] if self._stopped else []
        if self._failed:
            total = self._acknowledged + self._failed
            messages.append(
                f"{self._failed:,} of {output.count_of(total, 'record')} {plural(self._failed, 'was', 'were')} not "
                f"delivered; the first, {self._first_failure}"
            )
        if messages:
            raise click.ClickException("; ".join([*messages, f"acknowledged: {self._acknowledged:,}"]))
