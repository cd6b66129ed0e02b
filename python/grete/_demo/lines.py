"""View without a terminal: a line for each result, and one for the flow every few seconds."""

import sys
import time

from grete._demo.claims import Result
from grete._demo.picture import Picture

FLOW_INTERVAL = 5.0
"""Seconds between two lines about the flow."""
_WORDS = {Result.TRUE: "ok", Result.FALSE: "FAILED"}


class Lines:
    """View that appends lines to standard output."""

    def __init__(self) -> None:
        self._claims = self._notes = 0  # shown so far
        self._flow_due = time.monotonic() + FLOW_INTERVAL

    def draw(self, picture: Picture) -> None:
        """Writes the lines for what has changed."""
        for seconds, text in picture.notes[self._notes :]:
            _say(seconds, text)
        self._notes = len(picture.notes)
        for claim in picture.claims[self._claims :]:
            if claim.result not in _WORDS:
                break
            _say(claim.seconds, f"{_WORDS[claim.result]}: {claim.title}: {claim.detail}")
            self._claims += 1
        if picture.written.count and time.monotonic() >= self._flow_due:
            self._flow_due = time.monotonic() + FLOW_INTERVAL
            written, handled = picture.written.rate, picture.handled.rate
            _say(picture.elapsed, f"{written:,.0f} orders/s written, {handled:,.0f}/s handled, lag {picture.lag:,}")

    def close(self) -> None:
        """Does nothing: there is no terminal to give back."""


def _say(seconds: float, text: str) -> None:
    sys.stdout.write(f"{seconds:6.1f} s  {text}\n")
    sys.stdout.flush()
