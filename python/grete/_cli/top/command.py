"""Command `grete top`."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import click

from grete import _units
from grete._cli.options import kafka_options, kafka_settings, resolve_kafka_settings, set_up_logging
from grete._cli.param_ranges import ParsedType
from grete._cli.terminal import output
from grete._cli.terminal.error_words import command_error
from grete._cli.terminal.escapes import printable
from grete._cli.top.frame import Look, Part, make_frame
from grete._cli.top.trends import BLOCKS, PLAIN, Trends
from grete._config import layers
from grete.errors import GreteError, UnknownTopicError

if TYPE_CHECKING:
    import rich.live

    from grete._native import Messages
    from grete.client import Consumer

_INTERVAL = "2s"
# Reports that are older say nothing of the present: sparklines have one minute.
_SINCE = timedelta(minutes=10)
_TIMEOUT = 15.0
# Seconds before the next attempt after brokers have failed.
_RETRY = 1.0
_CONSUMER = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}


def _interval(text: str) -> float:
    seconds = _units.seconds(text)
    if not 0.1 <= seconds <= 3600:
        raise ValueError(f'"{text}" is no interval: it is from 100ms to 1h')
    return seconds


@click.command()
@click.argument("app", required=False)
@click.option("--once", is_flag=True, help="Show one frame of all reports that are there, and end.")
@click.option(
    "--interval",
    type=ParsedType("interval", _interval),
    default=_INTERVAL,
    show_default=True,
    metavar="DURATION",
    help="Time between two frames.",
)
@kafka_options
def top(app: str | None, once: bool, interval: float, bootstrap: str | None, pairs: tuple[str, ...]) -> None:
    """Shows what the Apps do that report (web_reports="3s"), or the one of this name, until Ctrl-C.

    Apps with throughput and lag of the last minute; processes; jobs that run, the oldest first; partitions with
    the reason why they do not move, the worst first. Elsewhere than on a terminal each frame is plain text, and whole.
    """
    output.check_stdout()
    is_terminal = output.is_terminal(sys.stdout) and not once
    # Log lines would tear the frames; what is wrong is in the frame.
    set_up_logging("CRITICAL" if is_terminal else "WARNING")
    try:
        settings = resolve_kafka_settings(layers.parse_layer({}, kafka_settings(bootstrap, pairs), "command line"))
        with _Reader(settings) as reader:
            reader.catch_up()
            with _screen(is_terminal) as screen:
                _show(reader, screen, app, None if once else interval)
    except KeyboardInterrupt:
        if once:
            raise
        return  # the usual way to end
    except GreteError as error:
        raise click.ClickException(printable(command_error(str(error)))) from error


def _show(reader: "_Reader", screen: "rich.live.Live | None", app: str | None, interval: float | None) -> None:
    blocks = BLOCKS if _can_encode(sys.stdout.encoding) else PLAIN
    is_first = True
    while True:
        begun = time.monotonic()
        rows = screen.console.height if screen is not None else None
        frame = make_frame(
            reader.store.fleet, reader.trends, _millis(), app=app, problem=reader.problem, look=Look(rows, blocks)
        )
        if screen is not None:
            screen.update(_draw(frame), refresh=True)
        else:
            output.show(*([] if is_first else [""]), *frame)
        is_first = False
        if interval is None:
            return
        reader.read_until(begun + interval)


def _draw(frame: list[Part]) -> Any:
    import rich.console
    import rich.text

    # As Text: rich must not read square brackets in names as markup.
    return rich.console.Group(
        *(
            rich.text.Text(printable(part), getattr(part, "style", ""), no_wrap=True, overflow="ellipsis")
            if isinstance(part, str)
            else part.draw()
            for part in frame
        )
    )


@contextmanager
def _screen(is_terminal: bool) -> "Iterator[rich.live.Live | None]":
    if not is_terminal:
        yield None
        return
    import rich.live

    with rich.live.Live(
        console=output.new_console(sys.stdout),
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    ) as live:
        yield live


class _Reader:
    """Reader of `grete.reports` without a group, in the thread of the command."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from grete._web.state.store import Store

        self.store = Store()
        self.trends = Trends()
        self.problem = ""
        """Why no reports are read; "": they are."""
        self._settings = dict(settings)
        self._consumer: Consumer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def catch_up(self) -> None:
        """Reads the reports that are there. Raises GreteError."""
        from grete._dlq.reader import OffsetRange, offset_ranges, read_range
        from grete._web.topics import REPORTS
        from grete.client import Admin, Consumer

        with Admin(self._settings) as admin:
            try:
                spans = offset_ranges(admin, REPORTS, None, _TIMEOUT)
            except UnknownTopicError:
                raise UnknownTopicError(
                    f"the topic {REPORTS} does not exist: create it with grete web setup, and let Apps report with "
                    'web_reports="3s"',
                    topic=REPORTS,
                ) from None
            since = datetime.now(UTC) - _SINCE
            begins = admin.offsets([(REPORTS, span.partition, since) for span in spans], timeout=_TIMEOUT)
        self._consumer = consumer = Consumer(self._settings | _CONSUMER)
        for span in spans:
            recent = OffsetRange(span.partition, max(span.begin, begins[REPORTS, span.partition]), span.end)
            for messages in read_range(consumer, REPORTS, recent, _TIMEOUT):
                self._add(messages, live=False)
        self.trends.advance(self.store.fleet, _millis())
        consumer.assign([(REPORTS, span.partition, span.end) for span in spans])

    def read_until(self, deadline: float) -> None:
        """Reads new reports until this time of the monotonic clock."""
        assert self._consumer is not None
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._add(self._consumer.poll(left), live=True)
                self.problem = ""
            except GreteError as error:
                self.problem = str(error)
                time.sleep(min(left, _RETRY))
        self.trends.advance(self.store.fleet, _millis())
        self.store.measure(_millis())  # forgets what is old

    def _add(self, messages: "Messages", *, live: bool) -> None:
        now = _millis()
        for message in messages:
            at = now if live else min(message.timestamp, now)
            self.trends.advance(self.store.fleet, at)
            self.store.add_report(message.key, message.value, message.timestamp, now, live=live)


def _can_encode(encoding: str | None) -> bool:
    try:
        BLOCKS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _millis() -> int:
    return int(time.time() * 1000)
