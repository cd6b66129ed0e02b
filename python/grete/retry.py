"""Retry policy of a route: how often a failing record is tried again, and when."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from grete import _units
from grete._process import callsite
from grete._suggest import checked_keywords
from grete.errors import ConfigError, DecodeError

T = TypeVar("T")

Exceptions = type[BaseException] | tuple[type[BaseException], ...]

# With a shorter wait, a failing record would keep a core busy.
_MIN_BACKOFF = 0.001
# The Rust core counts attempts in 32 bits.
_MAX_ATTEMPTS = 2**32 - 1


# Names from other libraries.
_HINTS = {
    "max_attempts": "it is called attempts",
    "max_retries": "it is called attempts, and counts the first run, too",
    "retries": "it is called attempts, and counts the first run, too",
    "times": "it is called attempts, and counts the first run, too",
    "delay": 'it is called backoff, like "5s", or "200ms..30s" for waits that double',
    "wait": 'it is called backoff, like "5s", or "200ms..30s" for waits that double',
    "interval": 'it is called backoff, like "5s", or "200ms..30s" for waits that double',
    "min_backoff": 'backoff has the first and the longest wait: "200ms..30s"',
    "max_backoff": 'backoff has the first and the longest wait: "200ms..30s"',
    "max_delay": 'backoff has the first and the longest wait: "200ms..30s"',
    "retry_on": "it is called on",
    "exceptions": "it is called on",
    "ignore": "it is called never",
    "exclude": "it is called never",
    "dead_letter": "it is a setting of the route: @app.consumer(..., dead_letter=...)",
}


@checked_keywords("Retry", _HINTS)
@dataclass(frozen=True)
class Retry:
    """Retry policy for a route whose handler raises.

    Args:
        attempts: runs in all, the first one included; then the record goes to the route's dead letter topic. None: no
            limit. Without a dead letter topic the retries go on after the last attempt, at the longest wait.
        backoff: the wait before the second attempt and the longest wait, "200ms..30s"; it doubles in between. One
            duration, "5s", is the same wait each time.
        jitter: the random share of each wait, 0.0 to 1.0, so that failures do not come back in step. The longest wait
            includes the jitter: with 0.2, a backoff of "60s" is 40 to 60 s, and with 0.0 60 s.
        on: the exceptions that are retried; records with other exceptions go to the dead letter topic at once. A
            DecodeError is retried only if `on` names it, because a value that does not decode will not the next time.
        never: exceptions that are not retried, although `on` has them.

    Raises ConfigError with the file and line of the call for invalid values.
    """

    attempts: int | None = 5
    backoff: str | float | tuple[str | float, str | float] = "200ms..30s"
    jitter: float = 0.2
    on: Exceptions = Exception
    never: Exceptions = ()

    def __post_init__(self) -> None:
        _check("attempts", self.attempts, _attempts)
        waits = _check("backoff", self.backoff, parse_backoff)
        _check("jitter", self.jitter, _jitter)
        object.__setattr__(self, "on", _check("on", self.on, _exceptions))
        object.__setattr__(self, "never", _check("never", self.never, _exceptions))
        object.__setattr__(self, "_waits", waits)

    @property
    def backoff_bounds(self) -> tuple[float, float]:
        """First and longest wait in seconds."""
        waits: tuple[float, float] = self._waits  # type: ignore[attr-defined]
        return waits

    def is_retriable(self, error: BaseException) -> bool:
        """Returns whether the handler is run again after this error."""
        if isinstance(error, DecodeError) and not any(issubclass(kind, DecodeError) for kind in _exceptions(self.on)):
            return False
        return isinstance(error, self.on) and not isinstance(error, self.never)


def _check(name: str, value: Any, parse: Callable[[Any], T]) -> T:
    try:
        return parse(value)
    except ValueError as error:
        where = callsite.caller_location()
        raise ConfigError(f"Retry({name}={value!r}): {error}", setting=name, location=where) from None


def parse_backoff(value: object) -> tuple[float, float]:
    """Returns the first and longest wait in seconds, from "200ms..30s", "5s", seconds, or a pair.

    Raises ValueError that says what is wrong.
    """
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError("a backoff has a first and a longest wait")
        first, longest = value
    elif isinstance(value, str) and ".." in value:
        first, longest = (part.strip() for part in value.split("..", 1))
    elif isinstance(value, str) and not any(c.isdigit() for c in value):
        raise ValueError('a backoff is a first and a longest wait, like "200ms..30s", or one wait, like "5s"')
    else:
        first = longest = value
    waits = _units.seconds(first), _units.seconds(longest)
    if waits[0] < _MIN_BACKOFF:
        raise ValueError("a backoff below 1ms would keep a core busy")
    if waits[1] < waits[0]:
        raise ValueError(f'the longest wait is shorter than the first: did you mean "{longest}..{first}"?')
    return waits


def _attempts(value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_ATTEMPTS:
        raise ValueError(
            "attempts is how often the handler runs in all, from 1 (no retry) up, or None for as often as it takes"
        )


def _jitter(value: object) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= 1:  # type: ignore[arg-type, operator]
        raise ValueError("jitter is the part of a wait that is left to chance, from 0.0 to 1.0")


def _exceptions(value: object) -> tuple[type[BaseException], ...]:
    given = tuple(value) if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    for one in given:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise ValueError("it is an exception class, or several in a tuple, like (TimeoutError, OSError)")
    return given
