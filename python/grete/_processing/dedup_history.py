"""Ids of the records before committed offsets, which deduplication needs: read again when partitions are assigned."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from grete import _native
from grete._native import Messages
from grete.client import Consumer
from grete.client.topic_reader import messages_before
from grete.errors import ClosedError, GreteError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

# Seconds until histories that could not be read are tried again, and longest wait for one answer.
_RETRY_INTERVAL = 2.0
_REQUEST_TIMEOUT = 5.0
# Seconds without a record after which the histories in work are tried again.
_STALL_TIMEOUT = 15.0
_POLL_TIMEOUT = 0.25
# Number of records before a committed offset in which the time of the last one is looked for.
_PROBED_RECORDS = 100


class DedupHistory:
    """Thread that reads, before the first job of each partition, the records whose ids count.

    The partition waits meanwhile. A history that cannot be read is tried again, and the statistics and probes say why.
    """

    def __init__(
        self, dispatcher: _native.Dispatcher, settings: Mapping[str, str], monitor: Monitor | None = None
    ) -> None:
        """`settings`: Kafka's, of the group's client."""
        self._dispatcher = dispatcher
        self._settings = {**settings, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        self._monitor = monitor
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="grete-dedup", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. Partitions that still wait are left to their next owners."""
        self._closed.set()
        self._dispatcher.close_histories()
        self._thread.join(_REQUEST_TIMEOUT)

    def _run(self) -> None:
        waiting: list[_native.History] = []
        with Consumer(self._settings) as consumer:
            while (found := self._dispatcher.next_histories(_RETRY_INTERVAL if waiting else None)) is not None:
                try:
                    waiting = self._read(consumer, [one for one in (*waiting, *found) if one.awaited])
                except ClosedError:
                    return  # the interpreter ends

    def _read(self, consumer: Consumer, histories: Sequence[_native.History]) -> list[_native.History]:
        """Reads histories at the same time. Returns those to try again."""
        failed: list[_native.History] = []
        ranges: dict[tuple[str, int], tuple[int, int]] = {}
        by_partition: dict[tuple[str, int], _native.History] = {}
        for one in histories:
            try:
                first, end = self._range(consumer, one)
            except ClosedError:
                raise
            except GreteError as error:
                failed.append(self._fail(one, error))
                continue
            if first < end:
                by_partition[one.topic, one.partition] = one
                ranges[one.topic, one.partition] = first, end
            else:
                one.end()
        starts = self._starts(consumer, by_partition, ranges)
        left = self._learn(consumer, by_partition, {at: (start, ranges[at][1]) for at, start in starts.items()})
        return failed + left

    def _range(self, consumer: Consumer, one: _native.History) -> tuple[int, int]:
        """Returns the first offset that can be needed, and the one behind the last."""
        at = one.topic, one.partition
        earliest = consumer.offsets([(*at, "earliest")], _REQUEST_TIMEOUT)[at]
        latest = consumer.offsets([(*at, "latest")], _REQUEST_TIMEOUT)[at]
        return max(earliest, one.before - one.records), min(one.before, latest)

    def _starts(
        self,
        consumer: Consumer,
        by_partition: Mapping[tuple[str, int], _native.History],
        ranges: Mapping[tuple[str, int], tuple[int, int]],
    ) -> dict[tuple[str, int], int]:
        """Returns the first offsets within the windows, as seen from the last records."""
        newest: dict[tuple[str, int], int] = {}
        probes = {at: (max(first, end - _PROBED_RECORDS), end) for at, (first, end) in ranges.items()}
        for at, messages in self._messages(consumer, probes):
            newest[at] = max(newest.get(at, -1), *messages.timestamps)
        starts = {}
        for at, (first, _) in ranges.items():
            starts[at] = first
            since = newest.get(at, -1) / 1e3 - by_partition[at].window
            if since > 0:
                moment = datetime.fromtimestamp(since, UTC)
                found = consumer.offsets([(*at, moment)], _REQUEST_TIMEOUT)[at]
                starts[at] = max(first, found)
        return starts

    def _learn(
        self,
        consumer: Consumer,
        by_partition: Mapping[tuple[str, int], _native.History],
        ranges: Mapping[tuple[str, int], tuple[int, int]],
    ) -> list[_native.History]:
        """Learns the records of the ranges. Returns histories whose records did not come."""
        left = dict(by_partition)
        for at, messages in self._messages(consumer, ranges):
            by_partition[at].learn(messages)
        reached = {at for at, (_, end) in ranges.items() if (consumer.position(*at) or 0) >= end}
        for at in reached:
            left.pop(at).end()
        error = TimeoutError(f"no record has come for {_STALL_TIMEOUT:g} s")
        return [self._fail(one, error) for one in left.values() if not self._closed.is_set()]

    def _messages(
        self, consumer: Consumer, ranges: Mapping[tuple[str, int], tuple[int, int]]
    ) -> Iterator[tuple[tuple[str, int], Messages]]:
        """Yields the records of ranges of offsets. Ends early when none come, and when the run ends."""
        left = dict(ranges)
        consumer.assign([(*at, first) for at, (first, _) in left.items()])
        deadline = time.monotonic() + _STALL_TIMEOUT
        while left and time.monotonic() < deadline and not self._closed.is_set():
            messages = consumer.poll(_POLL_TIMEOUT)
            if messages:
                deadline = time.monotonic() + _STALL_TIMEOUT
                at = messages.topic, messages.partition
                found = messages_before(messages, left[at][1]) if at in left else ()
                if found:
                    yield at, found
            # Positions count, not offsets of messages: the last offsets may hold none (control records).
            reached = [at for at, (_, end) in left.items() if (consumer.position(*at) or 0) >= end]
            for at in reached:
                del left[at]
            if reached:
                consumer.pause(reached)

    def _fail(self, one: _native.History, error: Exception) -> _native.History:
        """Reports a history that will be tried again."""
        one.fail(f"the ids before offset {one.before}, for dedup, cannot be read: {error}")
        log_and_emit(
            self._monitor,
            logger,
            logging.WARNING,
            "consumer.dedup_waits",
            "%s[%d] waits: the ids of the records before offset %d cannot be read, which dedup needs: %s; trying again",
            one.topic,
            one.partition,
            one.before,
            error,
            fields={"topic": one.topic, "partition": one.partition, "offset": one.before, "error": str(error)},
        )
        return one
