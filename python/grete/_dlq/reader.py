"""Bounded reads of a dead letter topic."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grete._dlq.dead_letter import DeadLetter, NoDeadLettersError, parse_dead_letter
from grete._native import Messages
from grete._plural import plural
from grete.client import Admin, Consumer
from grete.errors import TimeoutError, UnknownTopicError  # noqa: A004

# Seconds that a poll waits before the reader can do other work.
_POLL_TIMEOUT = 0.25
# Settings of the consumer of `grete dlq`, whatever else is set. "earliest" skips records that were deleted meanwhile;
# "latest" would skip all others.
SETTINGS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    # Dead letters of exactly-once jobs are there with their transaction, and those of an aborted one are none.
    "isolation.level": "read_committed",
}


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition from `begin` to before `end`."""

    partition: int
    begin: int
    end: int


def offset_ranges(admin: Admin, topic: str, partition: int | None, timeout: float) -> list[OffsetRange]:
    """Returns the present offset range of each partition of the topic (or of one of them). Raises UnknownTopicError."""
    numbers = [each.id for each in admin.describe_topic(topic, timeout=timeout).partitions]
    if partition is not None:
        if partition not in numbers:
            there = f"there are {len(numbers)}, from 0 to {max(numbers)}"
            raise UnknownTopicError(f"{topic} has no partition {partition}: {there}", topic=topic)
        numbers = [partition]
    begins = admin.offsets([(topic, number, "earliest") for number in numbers], timeout=timeout)
    ends = admin.offsets([(topic, number, "latest") for number in numbers], timeout=timeout)
    return [OffsetRange(number, begins[topic, number], ends[topic, number]) for number in sorted(numbers)]


def read_range(consumer: Consumer, topic: str, span: OffsetRange, idle_timeout: float) -> Iterator[Messages]:
    """Yields the range's records in batches, with empty batches in between so that the caller can do other work.

    Raises TimeoutError when no record has arrived for `idle_timeout` seconds.
    """
    if span.begin >= span.end:
        return
    consumer.assign([(topic, span.partition, span.begin)])
    position, progressed_at = span.begin, time.monotonic()
    while position < span.end:
        messages = consumer.poll(_POLL_TIMEOUT)
        yield _before(messages, span.end)
        # The position counts, not the last message's offset: the remaining offsets may hold no record (control records,
        # compaction).
        now = consumer.position(topic, span.partition)
        if now is not None and now > position:
            position, progressed_at = now, time.monotonic()
        elif time.monotonic() - progressed_at > idle_timeout:
            raise TimeoutError(
                f"nothing came of {topic}[{span.partition}] from offset {position} on in {idle_timeout:g} s, "
                f"and its end was {span.end}"
            )


def _before(messages: Messages, end: int) -> Messages:
    if not messages or messages.last_offset < end:
        return messages
    return messages[: sum(1 for offset in messages.offsets if offset < end)]


class DeadLetterReader:
    """Iterator over the dead letters of a topic, partition by partition, in order. Other records are counted and left
    out.
    """

    def __init__(self, consumer: Consumer, topic: str, ranges: Sequence[OffsetRange], idle_timeout: float) -> None:
        self._consumer = consumer
        self._topic = topic
        self._ranges = ranges
        self._idle_timeout = idle_timeout
        self.records = 0
        """Number of records read so far."""
        self.foreign = 0
        """Number of records that are no dead letters."""

    def __iter__(self) -> Iterator[DeadLetter]:
        """Reads the ranges. Raises NoDeadLettersError at the end when records were read, and none was a dead letter."""
        for span in self._ranges:
            for messages in read_range(self._consumer, self._topic, span, self._idle_timeout):
                for message in messages:
                    self.records += 1
                    letter = parse_dead_letter(message)
                    if letter is None:
                        self.foreign += 1
                    else:
                        yield letter
        if self.records and self.records == self.foreign:
            records = f"{self.records:,} {plural(self.records, 'record')}"
            raise NoDeadLettersError(
                f"{self._topic} is no dead letter topic: none of its {records} has the headers that dead letters get "
                "(grete.source.topic and others); name the topic that dead_letter= of a route names"
            )
