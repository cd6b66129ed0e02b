"""Reading records before committed offsets for their ids: several partitions at the same time."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from grete import _native, errors
from grete._native import Messages
from grete.client import Consumer
from grete.client.topic_reader import messages_before
from grete.errors import GreteError

# Longest wait for one answer, in seconds.
REQUEST_TIMEOUT = 5.0
# Seconds without a record after which the partitions that have not been read are given up.
_STALL_TIMEOUT = 15.0
_POLL_TIMEOUT = 0.25
# Number of records before a committed offset in which the time of the last one is looked for.
_PROBED_RECORDS = 100

Place = tuple[str, int]
#: Offsets: the first one, and the one behind the last.
Range = tuple[int, int]


class HistoryReader:
    """Reads the histories of different partitions. Each ends as soon as its records are learned."""

    def __init__(self, consumer: Consumer, closed: threading.Event) -> None:
        """`closed`: set when the run ends; then reading ends, too."""
        self._consumer = consumer
        self._closed = closed

    def read(self, histories: Sequence[_native.History]) -> list[tuple[_native.History, GreteError]]:
        """Returns the histories that could not be read, with the reasons. Raises GreteError if a request for all of
        them failed.
        """
        by_place = {(one.topic, one.partition): one for one in histories}
        ranges = self._ranges(by_place)
        for at in [at for at, (first, end) in ranges.items() if first >= end]:
            by_place[at].end()
            del ranges[at]
        starts, failed = self._starts(by_place, ranges)
        failed += self._learn(by_place, {at: (start, ranges[at][1]) for at, start in starts.items()})
        return [(by_place[at], error) for at, error in failed]

    def _ranges(self, by_place: Mapping[Place, _native.History]) -> dict[Place, Range]:
        """Returns all offsets that can be needed."""
        earliest = self._consumer.offsets([(*at, "earliest") for at in by_place], REQUEST_TIMEOUT)
        latest = self._consumer.offsets([(*at, "latest") for at in by_place], REQUEST_TIMEOUT)
        return {
            at: (max(earliest[at], one.before - one.records), min(one.before, latest[at]))
            for at, one in by_place.items()
        }

    def _starts(
        self, by_place: Mapping[Place, _native.History], ranges: Mapping[Place, Range]
    ) -> tuple[dict[Place, int], list[tuple[Place, GreteError]]]:
        """Returns the first offsets within the windows, as seen from the last records; and what cannot be read."""
        left = {at: (max(first, end - _PROBED_RECORDS), end) for at, (first, end) in ranges.items()}
        newest: dict[Place, int] = {}
        for at, messages in self._messages(left, REQUEST_TIMEOUT):
            newest[at] = max(newest.get(at, -1), *messages.timestamps)
        starts = {at: first for at, (first, _) in ranges.items() if at not in left}
        moments = []
        for at in starts:
            since = newest.get(at, -1) / 1e3 - by_place[at].window
            if since > 0:
                moments.append((*at, datetime.fromtimestamp(since, UTC)))
        if moments:
            for at, found in self._consumer.offsets(moments, REQUEST_TIMEOUT).items():
                starts[at] = max(starts[at], found)
        return starts, self._missing(left, REQUEST_TIMEOUT)

    def _learn(
        self, by_place: Mapping[Place, _native.History], ranges: Mapping[Place, Range]
    ) -> list[tuple[Place, GreteError]]:
        """Learns the records of the ranges. Returns the partitions whose records did not come."""
        left = dict(ranges)
        for at, messages in self._messages(left, _STALL_TIMEOUT, lambda at: by_place[at].end()):
            by_place[at].learn(messages)
        return self._missing(left, _STALL_TIMEOUT)

    def _missing(self, left: Iterable[Place], timeout: float) -> list[tuple[Place, GreteError]]:
        """Returns why these partitions could not be read; nothing when the run ends."""
        if self._closed.is_set():
            return []
        return [(at, errors.TimeoutError(f"no record has come for {timeout:g} s")) for at in left]

    def _messages(
        self, left: dict[Place, Range], timeout: float, reached: Callable[[Place], None] | None = None
    ) -> Iterator[tuple[Place, Messages]]:
        """Yields the records of ranges of offsets. Ends early when none come, and when the run ends.

        A partition whose end is reached is taken out of `left`, and reported to `reached`.
        """
        self._consumer.assign([(*at, first) for at, (first, _) in left.items()])
        deadline = time.monotonic() + timeout
        while left and time.monotonic() < deadline and not self._closed.is_set():
            messages = self._consumer.poll(_POLL_TIMEOUT)
            if messages:
                deadline = time.monotonic() + timeout
                at = messages.topic, messages.partition
                found = messages_before(messages, left[at][1]) if at in left else ()
                if found:
                    yield at, found
            # Positions count, not offsets of messages: the last offsets may hold none (control records).
            ended = [at for at, (_, end) in left.items() if (self._consumer.position(*at) or 0) >= end]
            for at in ended:
                del left[at]
                if reached is not None:
                    reached(at)
            if ended:
                self._consumer.pause(ended)
