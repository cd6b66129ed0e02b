"""Ids of the records before committed offsets, which deduplication needs: read again when partitions are assigned."""

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from grete import _native, client, errors
from grete._processing.history_reader import REQUEST_TIMEOUT, HistoryReader
from grete.client import Consumer
from grete.errors import ClosedError, GreteError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

# Seconds until histories that could not be read are tried again.
_RETRY_INTERVAL = 2.0


class DedupHistory:
    """Threads that read, before the first job of each partition, the records whose ids count.

    The partition waits meanwhile. A history that cannot be read is tried again, and the statistics and probes say why.
    One thread takes what is asked for. Each batch of histories is read by a thread of its own, and by one for each
    leader when a broker does not answer: no history waits long for a broker that does not lead its partition.
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
        self._lock = threading.Lock()
        # Histories to try again.
        self._failed: list[_native.History] = []
        # Threads that read.
        self._readers: set[threading.Thread] = set()

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends the threads. Partitions that still wait are left to their next owners."""
        self._closed.set()
        self._dispatcher.close_histories()
        deadline = time.monotonic() + REQUEST_TIMEOUT
        with self._lock:
            threads = [self._thread, *self._readers]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (found := self._dispatcher.next_histories(self._longest_wait())) is not None:
            with self._lock:
                failed, self._failed = self._failed, []
            self._start_readers([*failed, *found])

    def _longest_wait(self) -> float | None:
        """Returns the seconds until failed histories are looked for; None: no history can fail."""
        with self._lock:
            return _RETRY_INTERVAL if self._failed or self._readers else None

    def _start_readers(self, histories: Iterable[_native.History]) -> None:
        """Starts threads for histories that are still wanted. A partition may have several: one in each group."""
        batches: list[dict[tuple[str, int], _native.History]] = []
        for one in histories:
            place = one.topic, one.partition
            if one.awaited:
                batch = next((batch for batch in batches if place not in batch), None)
                if batch is None:
                    batches.append(batch := {})
                batch[place] = one
        for batch in batches:
            self._start_reader(list(batch.values()))

    def _start_reader(self, histories: Sequence[_native.History]) -> None:
        thread = threading.Thread(target=self._read_batch, args=(histories,), name="grete-dedup-reader", daemon=True)
        with self._lock:
            if self._closed.is_set():
                return
            self._readers.add(thread)
            thread.start()

    def _read_batch(self, histories: Sequence[_native.History]) -> None:
        try:
            self._read(histories)
        except ClosedError:
            pass  # the interpreter ends
        except Exception as error:  # else the partitions would wait without a word
            self._fail(histories, error)
        finally:
            with self._lock:
                self._readers.discard(threading.current_thread())

    def _read(self, histories: Sequence[_native.History]) -> None:
        """Reads histories at the same time. Those that fail are kept for the next try."""
        try:
            # A client of its own: a permanent error, such as a corrupt batch, stays with these histories.
            with Consumer(self._settings) as consumer:
                failed = HistoryReader(consumer, self._closed).read(histories)
        except ClosedError:
            raise
        except GreteError as error:
            self._divide(histories, error)
            return
        for one, reason in failed:
            self._fail([one], reason)

    def _divide(self, histories: Sequence[_native.History], error: GreteError) -> None:
        """Goes on after an error that may be that of one partition, or of one broker."""
        waiting = [one for one in histories if one.awaited]
        if self._closed.is_set():
            return
        if len(waiting) == 1:
            self._fail(waiting, error)
        elif not isinstance(error, errors.TimeoutError):
            for one in waiting:
                self._read([one])
        elif len(parts := self._by_leader(waiting)) > 1:
            for part in parts:
                self._start_reader(part)
        else:
            self._fail(waiting, error)

    def _by_leader(self, histories: Sequence[_native.History]) -> list[list[_native.History]]:
        """Divides histories by the leaders of their partitions; into one part if no broker says who leads them."""
        parts: dict[int | None, list[_native.History]] = {}
        try:
            with client.Admin(self._settings) as admin:
                topics = admin.describe_topics({one.topic for one in histories}, timeout=REQUEST_TIMEOUT)
        except GreteError:
            return [list(histories)]
        leaders = {(name, at.id): at.leader for name, topic in topics.items() for at in topic.partitions}
        for one in histories:
            parts.setdefault(leaders.get((one.topic, one.partition)), []).append(one)
        return list(parts.values())

    def _fail(self, histories: Sequence[_native.History], error: Exception) -> None:
        """Reports histories that will be tried again."""
        for one in histories:
            if self._closed.is_set() or not one.awaited:
                continue
            one.fail(f"the ids before offset {one.before}, for dedup, cannot be read: {error}")
            with self._lock:
                self._failed.append(one)
            log_and_emit(
                self._monitor,
                logger,
                logging.WARNING,
                "consumer.dedup_waits",
                "%s[%d] waits: the ids of the records before offset %d cannot be read, which dedup needs: %s; trying "
                "again",
                one.topic,
                one.partition,
                one.before,
                error,
                fields={"topic": one.topic, "partition": one.partition, "offset": one.before, "error": str(error)},
            )
