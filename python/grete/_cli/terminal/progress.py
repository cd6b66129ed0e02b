"""Progress line on the terminal, drawn by rich, which is imported only when a line is shown."""

import sys
import time
from typing import TYPE_CHECKING, TextIO

from grete._cli.terminal import output

if TYPE_CHECKING:
    import rich.progress

_MIN_INTERVAL = 0.5
_BAR_WIDTH = 30


class Progress:
    """Shows count, rate and other facts on stderr, at most twice a second, if stderr is a terminal.

    With a known total a bar stands before them. No thread draws the line: it changes in `update` only.
    """

    def __init__(
        self, shown: bool, stream: TextIO | None = None, what: str = "messages", total: int | None = None
    ) -> None:
        self._what = what
        self._started = self._last = time.monotonic()
        self._last_count = 0
        self._line = _new_line(stream or sys.stderr, total) if shown else None
        self.was_shown = shown
        """Whether there is, or was, a line."""

    def update(self, count: int, more: str | None) -> None:
        """Updates the line if it is time."""
        if self._line is None:
            return
        now = time.monotonic()
        if now - self._last < _MIN_INTERVAL:
            return
        rate = (count - self._last_count) / (now - self._last)
        self._last, self._last_count = now, count
        self._show(count, f"{count:,} {self._what}, {rate:,.0f}/s" + ("" if more is None else f", {more}"))

    def finish(self, count: int, more: str | None = None) -> None:
        """Writes the last line, which stays."""
        if self._line is not None:
            seconds = max(time.monotonic() - self._started, 1e-9)
            text = f"{count:,} {self._what}{'' if more is None else f', {more},'} in {seconds:.1f} s"
            self._show(count, f"{text}, {count / seconds:,.0f}/s")
            self._line.stop()
            self._line = None

    def _show(self, count: int, text: str) -> None:
        if self._line is not None:
            self._line.update(self._line.task_ids[0], completed=count, description=text)
            self._line.start()  # the cursor is hidden from here until `finish`
            self._line.refresh()


def _new_line(stream: TextIO, total: int | None) -> "rich.progress.Progress":
    import rich.progress
    import rich.table

    text = rich.progress.TextColumn(
        "{task.description}", markup=False, table_column=rich.table.Column(no_wrap=True, overflow="ellipsis")
    )
    bar = [] if total is None else [rich.progress.BarColumn(_BAR_WIDTH)]
    # The streams are not redirected: standard output must raise the errors of its writes, see `output`.
    line = rich.progress.Progress(
        *bar,
        text,
        console=output.new_console(stream),
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        get_time=time.monotonic,
    )
    line.add_task("", total=total)
    return line
