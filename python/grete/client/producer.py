"""The low-level producer."""

import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from grete import _core, config, units
from grete._core import Deliveries, Delivery
from grete.errors import ForkedClientError, UndeliveredError
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.processing import atexit
from grete.processing.notices import log_notices

if TYPE_CHECKING:
    import asyncio

    from grete.client.pending import Pending

logger = logging.getLogger("grete.client")

Bytes = bytes | bytearray | memoryview
Headers = Mapping[str, Bytes | None] | Sequence[tuple[str, bytes | None]] | Sequence[tuple[str, Bytes | None]]
Partitioner = Callable[[str, Any, int], int]

# What the time-out of a closing at the interpreter's end is: nobody wants to wait then.
_AT_EXIT = 5.0
# "For ever", as far as a closing is concerned.
_YEAR = 365.0 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Records that a closing producer had to give up."""

    by_topic: dict[str, int] = field(default_factory=dict)
    """How many, by topic."""
    not_written: int = 0
    """No broker has these."""
    unknown: int = 0
    """Of these nobody knows: they were sent, and nobody answered."""

    @property
    def count(self) -> int:
        """All of them."""
        return self.not_written + self.unknown

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        topics = ", ".join(f"{topic}: {count}" for topic, count in sorted(self.by_topic.items()))
        return f"{self.count} records ({topics}); {self.not_written} not written, {self.unknown} unknown"


class Producer(_core.Producer):
    """Writes records: idempotent, in order, in batches. Kafka's settings by their dotted names.

    ```
    with grete.client.Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        delivery = producer.produce("orders", b"value", key=b"key", headers=[("trace", b"1")])
        delivery.wait(5.0)                                # .offset .partition .error .outcome
        producer.produce_sync("orders", b"value")         # waits for the broker's answer
        producer.produce_many("orders", [b"a", b"b"]).wait()
    ```

    `produce` returns at once; a `Delivery` says what became of the record. Nobody has to call `poll`: records are sent,
    retried and settled by the producer's own thread. Every record ends in one of three ways: written, not written, or
    unknown (sent, and nobody answered within `delivery.timeout.ms`).

    Threads may share a producer. A forked child makes its own: the parent's raises ForkedClientError.
    """

    _closed: bool
    _monitor: Monitor | None
    _loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Pending]"
    _loops_lock: threading.Lock

    def __new__(
        cls,
        settings: Mapping[str, Any],
        *,
        max_block: str | float | None = None,
        partitioner: Partitioner | None = None,
        monitor: Monitor | None = None,
    ) -> Self:
        """Starts the network thread; connects when there is something to send. Raises ConfigError.

        `max_block` ("60s", or seconds): how long `produce` waits when `buffer.memory` is full or a topic is new; 0: not
        at all. Without it `max.block.ms` counts. `partitioner(topic, key, count)` chooses the partition of records that
        name none, in the thread that produces; without it records are placed as Java's clients do (murmur2 of the key;
        those without a key stick to a partition for a batch). `monitor` emits what is logged, as `app.monitor` does.
        """
        pairs = config.client_pairs(settings)
        if max_block is not None:
            seconds = units.seconds(max_block) if isinstance(max_block, str) else max_block
            pairs.append(("max.block.ms", str(round(seconds * 1000))))
        self = super().__new__(cls, pairs, partitioner)
        self._closed = False
        self._monitor = monitor
        self._loops = weakref.WeakKeyDictionary()
        self._loops_lock = threading.Lock()
        atexit.close_before_exit(self)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes. Raises UndeliveredError if records were given up, and what has ended the producer if something has,
        unless an exception is on its way already. A forked child that leaves the block leaves the producer alone.
        """
        try:
            undelivered = self.close()
        except ForkedClientError:
            return
        if kind is not None:
            return
        if (failure := self._failure()) is not None:
            raise failure
        if undelivered:
            raise UndeliveredError(f"closed with undelivered records: {undelivered}", undelivered=undelivered)

    async def send(
        self,
        topic: str,
        value: Bytes | None,
        *,
        key: Bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
    ) -> Delivery:
        """`produce` for asyncio: returns when the outcome is known, and never blocks the loop.

        Waits, up to `max_block`, for room and for the topic's metadata. Raises DeliveryError, QueueFull,
        UnknownTopicError. A task that is cancelled meanwhile takes nothing back: a record that was taken is delivered.
        Records linger as `linger.ms` says, so that many tasks share a batch.
        """
        pending = self._pending()
        delivery = await pending.offer(topic, value, key, headers, partition, timestamp)
        await pending.settled(delivery)
        if (error := delivery.error) is not None:
            raise error
        return delivery

    def close(self, timeout: float | None = 30.0) -> Undelivered:
        """Sends what was taken, waits for the answers, ends the network thread. Idempotent.

        What is not delivered when `timeout` seconds (None: for ever) are up is given up, logged, and reported.
        """
        first = not self._closed
        self._closed = True
        atexit.forget(self)
        over, by_topic, not_written, unknown = self._close(_YEAR if timeout is None else timeout)
        undelivered = Undelivered(by_topic, not_written, unknown)
        log_notices(logger, self._take_notices(), self._monitor)
        if first and undelivered:
            text = "closed with undelivered records: %s"
            tell(self._monitor, logger, logging.ERROR, "producer.undelivered", text, undelivered)
        if not over:
            text = "the producer's thread has not ended within %.1f s; it goes on alone"
            tell(self._monitor, logger, logging.ERROR, "producer.late", text, timeout)
        return undelivered

    @property
    def described(self) -> str:
        """For those who ask what is still open."""
        return "grete.client.Producer"

    def close_at_exit(self) -> None:
        """For a producer that nobody closed."""
        self.close(_AT_EXIT)

    def __repr__(self) -> str:
        if self._closed:
            return "<grete.client.Producer, closed>"
        return f"<grete.client.Producer, {self.statistics()['pending_records']} records on their way>"

    def _pending(self) -> "Pending":
        # Whoever has a loop has imported asyncio; importing grete does not.
        import asyncio

        from grete.client.pending import Pending

        loop = asyncio.get_running_loop()
        pending = self._loops.get(loop)
        if pending is None:
            with self._loops_lock:
                self._loops[loop] = pending = Pending(self)
        return pending

    # Called by the native part, in the thread that produces, polls, flushes or closes.

    def _log_notices(self, notices: list[_core.Notice]) -> None:
        log_notices(logger, notices, self._monitor)

    def _log_callback(self, error: BaseException, callback: object) -> None:
        text = "on_delivery callback %r raised"
        tell(self._monitor, logger, logging.ERROR, "producer.callback", text, callback, error=error)


__all__ = ["Deliveries", "Delivery", "Producer", "Undelivered"]
