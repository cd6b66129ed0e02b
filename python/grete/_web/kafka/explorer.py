"""Records of a topic: pages from an offset or a time on, one record, and a bounded search by key."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from grete._native import Message
from grete._web.kafka.gateway import Gateway
from grete.client import Consumer

PAGE = 50
"""Records of a page."""
MAX_SEARCHED = 200_000
"""Records that a search reads at most."""
MAX_SEARCH_SECONDS = 10.0
_MAX_FOUND = 50
_IDLE = 5.0
_POLL = 0.25


@dataclass(slots=True)
class Page:
    """Records of one or of all partitions, the newest first where all are asked for."""

    records: list[Message] = field(default_factory=list)
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    previous: int | None = None
    """Offset of the page before; None: none, or several partitions."""
    next: int | None = None


@dataclass(slots=True)
class Search:
    """Result of a search. `complete`: the whole range was read."""

    records: list[Message] = field(default_factory=list)
    searched: int = 0
    complete: bool = True
    seconds: float = 0.0


def page(gateway: Gateway, topic: str, partition: int | None, offset: int | None, at: datetime | None) -> Page:
    """Returns a page: from `offset` or from the time `at` on, else the newest records."""
    result = Page(ranges=gateway.ranges(topic, fresh=True))
    wanted = result.ranges if partition is None else {partition: result.ranges[partition]}
    starts = {number: max(first, end - PAGE) for number, (first, end) in wanted.items()}
    if at is not None:
        asked = [(topic, number, at) for number in wanted]
        starts = {number: begin for (_, number), begin in gateway.admin.offsets(asked, timeout=10.0).items()}
    elif offset is not None and partition is not None:
        first, end = wanted[partition]
        starts = {partition: min(max(first, offset), end)}
    with gateway.consumer() as consumer:
        for number, start in starts.items():
            result.records += _read(consumer, topic, number, start, wanted[number][1], PAGE)
    if partition is None:
        # From a time on the oldest come first; else the newest.
        result.records.sort(key=lambda message: (message.timestamp, message.offset), reverse=at is None)
        del result.records[PAGE:]
        return result
    first, end = wanted[partition]
    start = starts[partition]
    result.previous = max(first, start - PAGE) if start > first else None
    last = result.records[-1].offset + 1 if result.records else end
    result.next = last if last < end else None
    return result


def one(gateway: Gateway, topic: str, partition: int, offset: int) -> Message | None:
    """Returns a record; None: there is none at this offset."""
    first, end = gateway.ranges(topic).get(partition, (0, 0))
    if offset >= end:  # the record may be newer than what is known of the end
        end = gateway.admin.offsets([(topic, partition, "latest")], timeout=10.0)[topic, partition]
    if not first <= offset < end:
        return None
    with gateway.consumer() as consumer:
        found = _read(consumer, topic, partition, offset, offset + 1, 1)
    return found[0] if found and found[0].offset == offset else None


def search(
    gateway: Gateway,
    topic: str,
    partition: int | None,
    key: bytes,
    at: datetime | None,
    is_hidden: Callable[[Message], bool],
) -> Search:
    """Looks for records with this key, the newest ones first, up to the limits. `is_hidden`: whether a record with this
    key must not be found.
    """
    found, begun = Search(), time.monotonic()
    ranges = gateway.ranges(topic, fresh=True)
    wanted = ranges if partition is None else {partition: ranges[partition]}
    starts = {number: first for number, (first, _) in wanted.items()}
    if at is not None:
        asked = [(topic, number, at) for number in wanted]
        starts = {number: begin for (_, number), begin in gateway.admin.offsets(asked, timeout=10.0).items()}
    share = MAX_SEARCHED // max(1, len(wanted))
    with gateway.consumer() as consumer:
        for number, start in starts.items():
            end = wanted[number][1]
            if end - start > share:
                start, found.complete = end - share, False  # noqa: PLW2901
            for messages in _batches(consumer, topic, number, start, end):
                found.searched += len(messages)
                equal = (message for message in messages if message.key == key and message.offset < end)
                found.records += [message for message in equal if not is_hidden(message)]
                if time.monotonic() - begun > MAX_SEARCH_SECONDS:
                    found.complete = False
                    break
    found.records.sort(key=lambda message: message.timestamp, reverse=True)
    if len(found.records) > _MAX_FOUND:
        found.complete = False
        del found.records[_MAX_FOUND:]
    found.seconds = time.monotonic() - begun
    return found


def _read(consumer: Consumer, topic: str, partition: int, start: int, end: int, limit: int) -> list[Message]:
    records: list[Message] = []
    for messages in _batches(consumer, topic, partition, start, end, limit):
        records += [message for message in messages if message.offset < end][: limit - len(records)]
        if len(records) >= limit:
            break
    return records


def _batches(
    consumer: Consumer, topic: str, partition: int, start: int, end: int, limit: int = 10_000
) -> "Iterator[list[Message]]":
    if start >= end:
        return
    consumer.assign([(topic, partition, start)])
    idle_since = time.monotonic()
    position = start
    while position < end and time.monotonic() - idle_since < _IDLE:
        messages = consumer.poll(_POLL, limit)
        yield list(messages)
        now = consumer.position(topic, partition)
        if now is not None and now > position:
            position, idle_since = now, time.monotonic()


def parse_time(text: str) -> datetime | None:
    """Returns the time of a field of a form, in UTC; None: it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
