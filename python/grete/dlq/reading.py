"""Reading a dead letter topic from here to there."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grete._core import Messages
from grete.client import Admin, Consumer
from grete.dlq.letter import Letter, NoDeadLettersError, letter_of
from grete.errors import TimeoutError, UnknownTopicError  # noqa: A004

# How long a poll waits before the reader gets to look at something else.
_LOOK = 0.25
# What `grete dlq` reads with, whatever else is set: records that were deleted meanwhile are passed by, not all others.
SETTINGS = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of one partition from `begin` to before `end`."""

    partition: int
    begin: int
    end: int


def spans(admin: Admin, topic: str, partition: int | None, timeout: float) -> list[Span]:
    """All that is in the topic (or in that partition of it) now, by partition. Raises UnknownTopicError."""
    numbers = [each.id for each in admin.describe_topic(topic, timeout=timeout).partitions]
    if partition is not None:
        if partition not in numbers:
            there = f"there are {len(numbers)}, from 0 to {max(numbers)}"
            raise UnknownTopicError(f"{topic} has no partition {partition}: {there}", topic=topic)
        numbers = [partition]
    begins = admin.offsets([(topic, number, "earliest") for number in numbers], timeout=timeout)
    ends = admin.offsets([(topic, number, "latest") for number in numbers], timeout=timeout)
    return [Span(number, begins[topic, number], ends[topic, number]) for number in sorted(numbers)]


def read(consumer: Consumer, topic: str, span: Span, patience: float) -> Iterator[Messages]:
    """The span's records in batches; empty ones in between, so that the reader can look at something else.

    Raises TimeoutError when nothing has come for `patience` seconds.
    """
    if span.begin >= span.end:
        return
    consumer.assign([(topic, span.partition, span.begin)])
    position, moved = span.begin, time.monotonic()
    while position < span.end:
        messages = consumer.poll(_LOOK)
        yield _before(messages, span.end)
        # The position, not the last message's offset: what is left may hold no record (control records, compaction).
        now = consumer.position(topic, span.partition)
        if now is not None and now > position:
            position, moved = now, time.monotonic()
        elif time.monotonic() - moved > patience:
            raise TimeoutError(
                f"nothing came of {topic}[{span.partition}] from offset {position} on in {patience:g} s, "
                f"and its end was {span.end}"
            )


def _before(messages: Messages, end: int) -> Messages:
    if not messages or messages.last_offset < end:
        return messages
    return messages[: sum(1 for offset in messages.offsets if offset < end)]


class Letters:
    """The dead letters of a topic, partition by partition, in order; what is none is counted and left out."""

    def __init__(self, consumer: Consumer, topic: str, where: Sequence[Span], patience: float) -> None:
        self._consumer = consumer
        self._topic = topic
        self._where = where
        self._patience = patience
        self.records = 0
        """Read so far."""
        self.foreign = 0
        """Of these, no dead letters."""

    def __iter__(self) -> Iterator[Letter]:
        """Reads. Raises NoDeadLettersError at the end when records were read, and none was a dead letter."""
        for span in self._where:
            for messages in read(self._consumer, self._topic, span, self._patience):
                for message in messages:
                    self.records += 1
                    letter = letter_of(message)
                    if letter is None:
                        self.foreign += 1
                    else:
                        yield letter
        if self.records and self.records == self.foreign:
            raise NoDeadLettersError(
                f"{self._topic} is no dead letter topic: none of its {self.records:,} records has the headers that "
                "dead letters get (grete.source.topic and others); name the topic that dead_letter= of a route names"
            )
