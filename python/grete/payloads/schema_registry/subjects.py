"""Subjects: the names under which the versions of a schema are registered."""

import difflib
from collections.abc import Callable
from typing import Literal, TypeAlias

from grete._process import callsite
from grete.errors import ConfigError

SubjectStrategy: TypeAlias = Callable[[str, str, str], str]
"""Function of topic, part ("value" or "key") and the record's full name that returns the subject."""

SubjectName: TypeAlias = Literal["TopicName", "RecordName", "TopicRecordName"]


def topic_name(topic: str, part: str, record: str) -> str:  # noqa: ARG001 (all strategies have one signature)
    """Returns "orders-value": one schema for each topic and part. Java's TopicNameStrategy."""
    return f"{topic}-{part}"


def record_name(topic: str, part: str, record: str) -> str:
    """Returns "shop.Order": one schema for each type, in all topics. Java's RecordNameStrategy."""
    return _named(record, topic, part)


def topic_record_name(topic: str, part: str, record: str) -> str:
    """Returns "orders-shop.Order": several types in one topic. Java's TopicRecordNameStrategy."""
    return f"{topic}-{_named(record, topic, part)}"


_STRATEGIES: dict[str, SubjectStrategy] = {
    "TopicName": topic_name,
    "RecordName": record_name,
    "TopicRecordName": topic_record_name,
}


def strategy_for(subject: SubjectName | SubjectStrategy) -> SubjectStrategy:
    """Returns the function for a strategy's name, or the function itself. Raises ConfigError."""
    if callable(subject):
        return subject
    found = _STRATEGIES.get(subject)
    if found is None:
        # "TopicNameStrategy" is Java's name, and "topic_name" the one in librdkafka's bindings.
        plain = str(subject).replace("_", "").lower().removesuffix("strategy")
        near = difflib.get_close_matches(plain, [name.lower() for name in _STRATEGIES], n=1)
        hint = next((f'; did you mean "{name}"?' for name in _STRATEGIES if near and name.lower() == near[0]), "")
        raise ConfigError(
            f'subject={subject!r}: it is "TopicName", "RecordName", "TopicRecordName", or a function of topic, part '
            f"and record name{hint}",
            setting="subject",
            location=callsite.caller_location(),
        )
    return found


def _named(record: str, topic: str, part: str) -> str:
    if not record:
        raise ConfigError(
            f"the schema of the {part} of topic {topic} has no name, and the subject is made of it: give the schema a "
            'name (JSON Schema: "title"), or use subject="TopicName"',
            setting="subject",
        )
    return record
