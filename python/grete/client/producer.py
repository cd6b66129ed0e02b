"""Low-level producer."""

import functools
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from grete import _native, _units
from grete._config import layers
from grete._config.suggest import client_keyword
from grete._native import Deliveries, Delivery
from grete._plural import counted
from grete._process import exit_hooks
from grete._suggest import checked_keywords
from grete.client._calls import CallThreads, awaitable
from grete.client._settings import from_configuration
from grete.client.transactions import TransactionCalls
from grete.errors import ForkedClientError, UndeliveredError
from grete.instrumentation.emit import log_and_emit, log_native_events
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    import asyncio

    from grete.client._asyncio.deliveries import AsyncioDeliveries

logger = logging.getLogger("grete.client")

Bytes = bytes | bytearray | memoryview
Headers = Mapping[str, Bytes | None] | Sequence[tuple[str, bytes | None]] | Sequence[tuple[str, Bytes | None]]
Partitioner = Callable[[str, Any, int], int]

# Timeout in seconds of a close at the interpreter's end, which should be quick.
_EXIT_CLOSE_TIMEOUT = 5.0
# Timeout without a limit for a close: one year in seconds.
_FOREVER = 365.0 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Records that a closing producer had to give up."""

    by_topic: dict[str, int] = field(default_factory=dict)
    """Number of records by topic."""
    not_written: int = 0
    """Number of records that no broker has."""
    unknown: int = 0
    """Number of records with an unknown outcome: they were sent, and no broker responded. When the network thread does
    not end in time, all records that it still has, because it may send them later."""

    @property
    def count(self) -> int:
        """Number of all these records."""
        return self.not_written + self.unknown

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        topics = ", ".join(f"{topic}: {count}" for topic, count in sorted(self.by_topic.items()))
        return f"{counted(self.count, 'record')} ({topics}); {self.not_written} not written, {self.unknown} unknown"


@checked_keywords("Producer", client_keyword)
class Producer(_native.Producer, TransactionCalls):
    """Writes records: idempotent, in order, in batches. Kafka's settings by their dotted names.

    ```
    with grete.client.Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        delivery = producer.produce("orders", b"value", key=b"key", headers=[("trace", b"1")])
        delivery.wait(5.0)                                # .offset .partition .error .outcome
        producer.produce_sync("orders", b"value")         # waits for the broker's response
        producer.produce_many("orders", [b"a", b"b"]).wait()
    ```

    `produce` returns at once, with a `Delivery` for the outcome of the record. Calls of `poll` are optional: the
    producer's own thread sends, retries and settles records. Every record has one of three outcomes: written, not
    written, or unknown (sent, and no broker responded within `delivery.timeout.ms`).

    In an event loop: `async with`, `await producer.send(...)`, which never blocks the loop, and twins with `_async` of
    the other calls that wait. Deliveries can be awaited, too: `await producer.produce(...)`.

    With `transactional.id`: `with producer.transaction():`, whose records and offsets are committed together or not at
    all. Records are then produced inside of transactions only.

    Threads may share a producer. A forked child makes its own: the parent's raises ForkedClientError.

    Settings:
        bootstrap.servers (str, default not set).
        client.id (str, default grete).
        request.timeout.ms (int, milliseconds, default 30000).
        default.api.timeout.ms (int, milliseconds, default 60000).
        reconnect.backoff.ms (int, milliseconds, default 50).
        reconnect.backoff.max.ms (int, milliseconds, default 1000).
        retry.backoff.ms (int, milliseconds, default 100).
        retry.backoff.max.ms (int, milliseconds, default 1000).
        metadata.max.age.ms (int, milliseconds, default 300000).
        connections.max.idle.ms (int, milliseconds, default 540000).
        socket.connection.setup.timeout.ms (int, milliseconds, default 10000).
        socket.connection.setup.timeout.max.ms (int, milliseconds, default 30000).
        allow.auto.create.topics (bool, default false).
        security.protocol (str, default PLAINTEXT).
        ssl.ca.location (str, default not set).
        ssl.ca.pem (str, default not set).
        ssl.truststore.type (str, default not set).
        ssl.truststore.password (str, default not set).
        ssl.truststore.password.file (str, default not set).
        ssl.certificate.location (str, default not set).
        ssl.certificate.pem (str, default not set).
        ssl.key.location (str, default not set).
        ssl.key.pem (str, default not set).
        ssl.key.password (str, default not set).
        ssl.key.password.file (str, default not set).
        ssl.keystore.location (str, default not set).
        ssl.keystore.type (str, default not set).
        ssl.keystore.password (str, default not set).
        ssl.keystore.password.file (str, default not set).
        ssl.crl.location (str, default not set).
        enable.ssl.certificate.verification (bool, default true).
        ssl.endpoint.identification.algorithm (str, default https).
        sasl.mechanism (str, default not set).
        sasl.username (str, default not set).
        sasl.password (str, default not set).
        sasl.password.file (str, default not set).
        sasl.jaas.config (str, default not set).
        sasl.allow.plaintext (bool, default false).
        sasl.oauthbearer.method (str, default default).
        sasl.oauthbearer.token.endpoint.url (str, default not set).
        sasl.oauthbearer.client.id (str, default not set).
        sasl.oauthbearer.client.secret (str, default not set).
        sasl.oauthbearer.client.secret.file (str, default not set).
        sasl.oauthbearer.scope (str, default not set).
        sasl.oauthbearer.extensions (str, default not set).
        sasl.oauthbearer.token.file (str, default not set).
        sasl.oauthbearer.token.provider (str, default not set).
        sasl.kerberos.service.name (str, default not set).
        sasl.kerberos.principal (str, default not set).
        sasl.kerberos.keytab (str, default not set).
        acks (str, default all).
        enable.idempotence (bool, default true).
        max.in.flight.requests.per.connection (int, default 5).
        linger.ms (int, milliseconds, default 5).
        batch.size (int, bytes, default 262144).
        buffer.memory (int, bytes, default 33554432).
        max.request.size (int, bytes, default 1048576).
        compression.type (str, default none).
        compression.level (int, default -1).
        delivery.timeout.ms (int, milliseconds, default 120000).
        max.block.ms (int, milliseconds, default 60000).
        topic.metadata.propagation.max.ms (int, milliseconds, default 1000).
        transactional.id (str, default not set).
        transaction.timeout.ms (int, milliseconds, default 60000).
    """

    _calls: CallThreads
    _closed: bool
    _monitor: Monitor | None
    _log: Callable[[list[_native.LogEvent]], None]
    _by_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncioDeliveries]"
    _by_loop_lock: threading.Lock
    _logger: ClassVar[logging.Logger] = logger

    def __new__(
        cls,
        settings: Mapping[str, Any],
        *,
        max_block: str | float | None = None,
        partitioner: Partitioner | None = None,
        monitor: Monitor | None = None,
    ) -> Self:
        """Starts the network thread, which connects when there is something to send. Raises ConfigError.

        `max_block` ("60s", or seconds): longest wait of `produce` when `buffer.memory` is full or a topic is new; 0: no
        wait. The default is `max.block.ms`. `partitioner(topic, key, count)` chooses the partition of records that have
        none, in the thread that produces. Without it records are placed like those of Java's clients: murmur2 of the
        key; records without a key stay on one partition for a batch. `monitor` emits the logged events, like
        `app.monitor`.

        Only `settings` count: `Producer.from_config()` reads `grete.toml` and the environment.
        """
        pairs = layers.client_config_pairs(settings)
        if max_block is not None:
            seconds = _units.seconds(max_block) if isinstance(max_block, str) else max_block
            pairs.append(("max.block.ms", str(round(seconds * 1000))))
        log = functools.partial(log_native_events, cls._logger, monitor=monitor)
        self = super().__new__(cls, pairs, log, partitioner)
        self._set_up(log, monitor)
        exit_hooks.close_before_exit(self)
        return self

    @classmethod
    def from_config(
        cls,
        settings: Mapping[str, Any] | None = None,
        *,
        max_block: str | float | None = None,
        partitioner: Partitioner | None = None,
        monitor: Monitor | None = None,
    ) -> Self:
        """Makes a producer with Kafka's settings of `grete.toml` and of GRETE_KAFKA_... variables.

        `settings` win over both. Raises ConfigError, which names the origin of a wrong setting.
        """
        return cls(from_configuration(settings), max_block=max_block, partitioner=partitioner, monitor=monitor)

    def _set_up(self, log: Callable[[list[_native.LogEvent]], None], monitor: Monitor | None) -> None:
        self._calls = CallThreads("grete-producer-call")
        self._closed = False
        self._log = log
        self._monitor = monitor
        self._by_loop = weakref.WeakKeyDictionary()
        self._by_loop_lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the producer. Raises UndeliveredError if records were given up, or the error that has ended the
        producer.

        Neither is raised while another exception propagates. A forked child that leaves the block does not close the
        producer.
        """
        try:
            undelivered = self.close()
        except ForkedClientError:
            return
        if kind is None:
            self._raise_undelivered(undelivered)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the producer like `__exit__`, and lets other tasks run meanwhile."""
        try:
            undelivered = await self.close_async()
        except ForkedClientError:
            return
        if kind is None:
            self._raise_undelivered(undelivered)

    def _raise_undelivered(self, undelivered: Undelivered) -> None:
        if (failure := self._fatal_error()) is not None:
            raise failure
        if undelivered:
            raise UndeliveredError(f"closed with undelivered records: {undelivered}", undelivered=undelivered)

    if not TYPE_CHECKING:  # type checkers take the overloads of `grete.Producer`

        async def send(self, topic, value, *, key=None, headers=None, partition=None, timestamp=None) -> Delivery:
            """See `grete.Producer.send`."""
            return await self._send(topic, value, key, headers, partition, timestamp)

    async def _send(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: "Headers | None",
        partition: int | None,
        timestamp: int | datetime | None,
        on_append: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """`on_append(delivery)` is called once the record is taken, before the wait for its outcome."""
        pending = self._asyncio_deliveries()
        delivery = await pending.append(topic, value, key, headers, partition, timestamp)
        if on_append is not None:
            on_append(delivery)
        return await self._await_delivery(delivery)

    async def _append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: "Headers | None",
        partition: int | None,
        timestamp: int | datetime | None,
    ) -> Delivery:
        """Takes a record like `_send`, and does not wait for its outcome."""
        return await self._asyncio_deliveries().append(topic, value, key, headers, partition, timestamp)

    def close(self, timeout: float | None = 30.0) -> Undelivered:
        """Sends the records taken, waits for the responses, ends the network thread. Idempotent.

        Records that are not delivered after `timeout` seconds (None: no limit) are given up, logged, and reported. The
        callbacks of `on_delivery` of the others have run then.
        """
        first = not self._closed
        self._closed = True
        exit_hooks.forget(self)
        finished, by_topic, not_written, unknown = self._close(_FOREVER if timeout is None else timeout)
        undelivered = Undelivered(by_topic, not_written, unknown)
        self._log(self._drain_log_events())
        if first and undelivered:
            text = "closed with undelivered records: %s"
            log_and_emit(self._monitor, self._logger, logging.ERROR, "producer.undelivered", text, undelivered)
        if not finished:
            text = "the producer's thread did not end within %.1f s; it is left running"
            log_and_emit(self._monitor, self._logger, logging.ERROR, "producer.close_timeout", text, timeout)
        self._calls.close()
        return undelivered

    # ---- the same for asyncio

    async def flush_async(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Awaits `flush`, which runs in a thread."""
        await self._calls.run(self.flush, timeout)

    async def partitions_async(self, topic: str, timeout: float | None = 30.0) -> int:  # noqa: ASYNC109
        """Awaits `partitions`, which runs in a thread."""
        count: int = await self._calls.run(self.partitions, topic, timeout)
        return count

    close_async = awaitable(close)

    @property
    def described(self) -> str:
        """Name in lists of open clients."""
        return "grete.client.Producer"

    def close_at_exit(self) -> None:
        """Closes a producer that is still open when the interpreter ends."""
        self.close(_EXIT_CLOSE_TIMEOUT)

    def __repr__(self) -> str:
        if self._closed:
            return "<grete.client.Producer, closed>"
        return f"<grete.client.Producer, records in flight: {self.statistics()['pending_records']}>"

    def _asyncio_deliveries(self) -> "AsyncioDeliveries":
        # A caller with an event loop has imported asyncio; importing grete does not.
        import asyncio

        from grete.client._asyncio.deliveries import AsyncioDeliveries

        loop = asyncio.get_running_loop()
        pending = self._by_loop.get(loop)
        if pending is None:
            with self._by_loop_lock:
                self._by_loop[loop] = pending = AsyncioDeliveries(self)
        return pending

    # Called by the native part, for `await` of a delivery.

    async def _await_delivery(self, delivery: Delivery) -> Delivery:
        if not delivery.done:
            await self._asyncio_deliveries().wait_settled(delivery)
        if (error := delivery.error) is not None:
            raise error
        return delivery

    async def _await_deliveries(self, deliveries: Deliveries) -> Deliveries:
        while (pending := deliveries._pending()) is not None:  # noqa: SLF001
            await self._asyncio_deliveries().wait_settled(pending)
        return deliveries.wait(0.0)  # raises the first error

    # Called by the native part, in the thread that produces, polls, flushes or closes.

    def _log_callback(self, error: BaseException, callback: object) -> None:
        text = "on_delivery callback %r raised"
        log_and_emit(self._monitor, self._logger, logging.ERROR, "producer.callback", text, callback, error=error)


__all__ = ["Deliveries", "Delivery", "Producer", "Undelivered"]
