"""One line on the terminal that says how it goes."""

import sys
import time
from typing import TextIO

_EVERY = 0.5


class Progress:
    """Shows count, rate and what else there is to say on stderr, at most twice a second, if stderr is a terminal."""

    def __init__(self, shown: bool, stream: TextIO | None = None, what: str = "messages") -> None:
        self._stream = stream or sys.stderr
        self._shown = shown
        self._what = what
        self._started = self._last = time.monotonic()
        self._last_count = 0
        self._width = 0

    def update(self, count: int, more: str | None) -> None:
        """Says it again if it is time."""
        if not self._shown:
            return
        now = time.monotonic()
        if now - self._last < _EVERY:
            return
        rate = (count - self._last_count) / (now - self._last)
        self._last, self._last_count = now, count
        self._write(f"{count:,} {self._what}, {rate:,.0f}/s" + ("" if more is None else f", {more}"))

    def finish(self, count: int) -> None:
        """The last line stays."""
        if self._shown:
            seconds = max(time.monotonic() - self._started, 1e-9)
            self._write(f"{count:,} {self._what} in {seconds:.1f} s, {count / seconds:,.0f}/s")
            self._stream.write("\n")
            self._stream.flush()

    def _write(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)
