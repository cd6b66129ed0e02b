"""Patterns among the topics of a route: regular expressions that begin with `^`, and match whole names."""

import functools
from collections.abc import Iterable, Mapping
from typing import TypeVar

from grete import _native
from grete.errors import ConfigError

T = TypeVar("T")

# Topics of the brokers' own, which no pattern matches.
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
# Most of a pattern that an error repeats.
_SHOWN = 100


def is_pattern(topic: str) -> bool:
    """Returns whether a topic of a subscription is a pattern: no name of a topic begins with `^`."""
    return topic.startswith("^")


def check_pattern(text: str) -> str:
    """Returns the pattern. Raises ConfigError if the text is none."""
    try:
        _compiled(text)
    except ValueError as error:
        raise ConfigError(
            f'"{text[:_SHOWN]}" is no topic pattern: {error}; a pattern is a regular expression for whole names, '
            r"like ^orders\.(eu|us)",
            setting="topic",
        ) from None
    return text


def is_among(topic: str, topics: Iterable[str]) -> bool:
    """Returns whether one of these names and patterns stands for the topic."""
    return any(topic == one or (is_pattern(one) and _compiled(one).matches(topic)) for one in topics)


def names(topics: Iterable[str]) -> list[str]:
    """Returns these topics without patterns."""
    return [topic for topic in topics if not is_pattern(topic)]


def expand(topics: Iterable[str], present: Iterable[str]) -> list[str]:
    """Returns the names, and the topics of `present` that match a pattern, each once."""
    listed = list(topics)
    matching = [topic for topic in present if topic not in _INTERNAL and is_among(topic, listed)]
    return list(dict.fromkeys([*names(listed), *matching]))


def lookup(by_topic: Mapping[str, T], topic: str) -> T | None:
    """Returns the value of the topic's name, or else of the first pattern that matches; None: there is neither."""
    found = by_topic.get(topic)
    if found is not None:
        return found
    return next((value for one, value in by_topic.items() if is_pattern(one) and _compiled(one).matches(topic)), None)


@functools.cache
def _compiled(text: str) -> _native.TopicPattern:
    return _native.TopicPattern(text)
