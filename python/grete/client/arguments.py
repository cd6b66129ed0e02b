"""Checks of the arguments of the clients' methods: errors name the method, and the expected form.

Raises TypeError for wrong types, ValueError for numbers out of range.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from grete._config import topic_patterns
from grete.errors import ConfigError

MAX_PARTITION = (1 << 31) - 1
MAX_OFFSET = (1 << 63) - 1
MAX_REPLICAS = (1 << 15) - 1
MAX_RECORDS = (1 << 31) - 1


def integer(value: object, what: str, least: int, most: int) -> int:
    """Returns a whole number from `least` to `most`; also of other integer types, such as numpy's."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an int, not {_type(value)}")
    whole: int = value.__index__()
    if not least <= whole <= most:
        raise ValueError(f"{what} is from {least} to {most}, not {whole}")
    return whole


def partition(value: object) -> int:
    """Returns the number of a partition."""
    return integer(value, "a partition", 0, MAX_PARTITION)


def offset(value: object, other: str = "") -> int:
    """Returns an offset. `other`: alternatives, for the error message."""
    return integer(value, f"an offset{f' (or {other})' if other else ''}", 0, MAX_OFFSET)


def seconds(value: object) -> float | None:
    """Returns a timeout in seconds; None: no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"a timeout is a number of seconds or None, not {_type(value)}")
    try:
        timeout = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return threading.TIMEOUT_MAX
    if not timeout >= 0:
        raise ValueError(f"a timeout is a number of seconds from 0 up, not {value}")
    return min(timeout, threading.TIMEOUT_MAX)


def subscribed(topics: Iterable[str]) -> list[str]:
    """Returns the names and patterns of a subscription. Raises ConfigError for a text that is no pattern."""
    listed = names("subscribe", topics)
    for topic in filter(topic_patterns.is_pattern, listed):
        topic_patterns.check_pattern(topic)
    return listed


def partitions(method: str, given: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Returns a list of (topic, partition)."""
    return [
        (_topic(method, topic), partition(at))
        for topic, at in _tuples(method, given, 2, '(topic, partition), like [("orders", 0)]')
    ]


def start_offsets(method: str, given: Iterable[tuple[str, int, Any]], where: str) -> list[tuple[str, int, Any]]:
    """Returns a list of (topic, partition, position). `where`: the method's name for a position. The core checks it."""
    return [
        (_topic(method, topic), partition(at), place)
        for topic, at, place in _tuples(
            method, given, 3, f'(topic, partition, {where}), like [("orders", 0, "latest")]'
        )
    ]


def mapping_by_partition(method: str, given: Mapping[tuple[str, int], Any], example: str) -> list[tuple[str, int, Any]]:
    """Returns a dict by (topic, partition) as tuples (topic, partition, value)."""
    wanted = f'a dict by (topic, partition), like {{("orders", 0): {example}}}'
    if not isinstance(given, Mapping):
        raise TypeError(f"{method} takes {wanted}, not {_type(given)}")
    keys = _tuples(method, given, 2, wanted)
    return [(_topic(method, topic), partition(at), given[topic, at]) for topic, at in keys]


def settings_mapping(method: str, given: Mapping[str, Any] | None, example: str) -> Mapping[str, Any]:
    """Returns settings by name; empty for None."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{method} takes settings as a dict, like {example}, not {_type(given)}")
    return given or {}


def _tuples(method: str, given: Iterable[Any], length: int, wanted: str) -> list[tuple[Any, ...]]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{method} takes {wanted}, not {_type(given)}")
    items = list(given)
    for item in items:
        if not isinstance(item, (tuple, list)) or len(item) != length:
            raise TypeError(f"{method} takes {wanted}; {item!r} is none of these")
    return items


def _topic(method: str, topic: object) -> str:
    if not isinstance(topic, str):
        raise TypeError(f"{method}: a topic is a str, not {_type(topic)}")
    return topic


def _type(value: object) -> str:
    return "None" if value is None else type(value).__name__


def names(method: str, given: Iterable[str], what: str = "topic") -> list[str]:
    """Returns each name once, in order. A single string is refused: iteration would split it into letters."""
    if isinstance(given, str):
        raise ConfigError(f'{method} takes a list of {what}s: {method}(["{given}"])', setting=what)
    if not isinstance(given, Iterable):
        raise TypeError(f"{method} takes a list of {what}s, not {given!r}")
    listed = list(given)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{method}: a {what} is a str, not {name!r}")
    return list(dict.fromkeys(listed))


def time_left(timeout: float | None) -> Callable[[], float | None]:
    """Returns a function that says how many seconds of `timeout` are left; None: no limit."""
    if timeout is None:
        return lambda: None
    end = time.monotonic() + timeout
    return lambda: max(0.0, end - time.monotonic())
