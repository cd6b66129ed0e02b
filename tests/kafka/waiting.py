"""Waiting for a condition, never for an amount of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Deadline:
    """A point on the monotonic clock; all waits of one operation share it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self._at - time.monotonic())

    @property
    def over(self) -> bool:
        return self.left == 0.0


def eventually(
    condition: Callable[[], T],
    seconds: float,
    what: str | Callable[[], str] = "the condition",
    *,
    first_wait: float = 0.005,
    longest_wait: float = 0.25,
) -> T:
    """Ask `condition` until its answer is true, and return that; AssertionError after `seconds`.

    The waits between two questions grow, so that a quick answer comes quickly and a slow one costs little CPU.
    `what` says in the error what did not come true; a callable is asked at the end, when it knows more.
    """
    deadline = Deadline(seconds)
    wait = first_wait
    while True:
        answer = condition()
        if answer:
            return answer
        if deadline.over:
            text = what() if callable(what) else what
            raise AssertionError(f"not within {seconds:g} s: {text}")
        time.sleep(min(wait, max(deadline.left, 0.001)))
        wait = min(wait * 1.5, longest_wait)
