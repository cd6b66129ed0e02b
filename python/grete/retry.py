"""What happens to a record whose handler fails: how often it is tried again, and when."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from grete import _place, units
from grete.errors import ConfigError

T = TypeVar("T")

Exceptions = type[BaseException] | tuple[type[BaseException], ...]

# Below it a record that fails would keep a core busy.
_SHORTEST = 0.001
# The processing core counts attempts in 32 bits.
_MOST = 2**32 - 1


@dataclass(frozen=True)
class Retry:
    """How a route deals with a handler that raises.

    Args:
        attempts: runs in all, the first one included; then the record goes to the route's dead letter topic. None: as
            many as it takes. Without a dead letter topic the retries go on after the last attempt, at the longest wait.
        backoff: the wait before the second attempt and the longest wait, "200ms..30s"; it doubles in between. One
            duration, "5s", is a constant wait.
        jitter: what part of each wait is left to chance, 0.0 to 1.0, so that failures do not come back in step.
        on: the exceptions that are worth another attempt; all others go to the dead letter topic at once.
        never: exceptions that are not, although `on` has them.

    Raises ConfigError with the file and line of the call for what makes no sense.
    """

    attempts: int | None = 5
    backoff: str | float | tuple[str | float, str | float] = "200ms..30s"
    jitter: float = 0.2
    on: Exceptions = Exception
    never: Exceptions = ()

    def __post_init__(self) -> None:
        _check("attempts", self.attempts, _attempts)
        waits = _check("backoff", self.backoff, waits_of)
        _check("jitter", self.jitter, _jitter)
        object.__setattr__(self, "on", _check("on", self.on, _exceptions))
        object.__setattr__(self, "never", _check("never", self.never, _exceptions))
        object.__setattr__(self, "_waits", waits)

    @property
    def waits(self) -> tuple[float, float]:
        """The first and the longest wait in seconds."""
        waits: tuple[float, float] = self._waits  # type: ignore[attr-defined]
        return waits

    def covers(self, error: BaseException) -> bool:
        """Whether another attempt is worth it after this error."""
        return isinstance(error, self.on) and not isinstance(error, self.never)


def _check(name: str, value: Any, parse: Callable[[Any], T]) -> T:
    try:
        return parse(value)
    except ValueError as error:
        where = _place.caller()
        raise ConfigError(f"Retry({name}={value!r}): {error}", setting=name, location=where) from None


def waits_of(value: object) -> tuple[float, float]:
    """First and longest wait in seconds of "200ms..30s", "5s", seconds, or a pair. ValueError says what is wrong."""
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
    waits = units.seconds(first), units.seconds(longest)
    if waits[0] < _SHORTEST:
        raise ValueError("a backoff below 1ms would keep a core busy")
    if waits[1] < waits[0]:
        raise ValueError(f'the longest wait is shorter than the first: did you mean "{longest}..{first}"?')
    return waits


def _attempts(value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
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
