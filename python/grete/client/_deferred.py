"""Records for new topics that an event loop's thread has produced: a task takes them when the topic is known."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from grete._native import Delivery
from grete.errors import BufferFullError, GreteError, TimeoutError  # noqa: A004

Append = Callable[..., Awaitable[Delivery]]
OnFailed = Callable[["DeferredDelivery"], object]


class DeferredDelivery:
    """`Delivery` of a record that the producer has yet to take: the same attributes, which are those of the delivery
    once there is one.

    A topic that does not exist is an `error` here, and the outcome "not_written".
    """

    __slots__ = ("_arguments", "_delivery", "_error", "_loop", "_partition", "_since", "_size", "_taken", "_waiters")

    def __init__(self, arguments: tuple[Any, ...], since: int, loop: asyncio.AbstractEventLoop) -> None:
        """`arguments`: those of `produce`, from the topic to the timestamp. `since`: the client's clock."""
        topic, value, key, headers, partition, timestamp = arguments
        # The caller may change a buffer or a list meanwhile.
        value = value if value is None else bytes(value)
        key = key if key is None else bytes(key)
        headers = headers if headers is None or isinstance(headers, dict) else list(headers)
        self._arguments = (
            topic,
            value,
            key,
            dict(headers) if isinstance(headers, dict) else headers,
            partition,
            timestamp,
        )
        self._size = len(value or b"") + len(key or b"")
        self._partition: int | None = partition
        self._since = since
        self._loop = loop
        self._delivery: Delivery | None = None
        self._error: BaseException | None = None
        self._taken = threading.Event()
        self._waiters: list[asyncio.Future[None]] = []

    def _end(self, delivery: Delivery | None, error: BaseException | None) -> None:
        self._delivery, self._error = delivery, error
        self._taken.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def _wait_taken(self) -> None:
        if not self._taken.is_set():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def _await(self) -> Delivery:
        if asyncio.get_running_loop() is not self._loop:
            raise GreteError("the record was produced in another event loop: await its delivery there")
        await self._wait_taken()
        return await self._known()

    def _known(self) -> Delivery:
        if self._error is not None:
            raise self._error
        if self._delivery is None:
            raise AssertionError("the record is not taken yet")
        return self._delivery

    def __await__(self) -> Generator[Any, Any, Delivery]:
        return self._await().__await__()

    def wait(self, timeout: float | None = None) -> Delivery:
        """Waits like `Delivery.wait`, in another thread than the event loop's, which takes the record."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._taken.is_set() and asyncio._get_running_loop() is self._loop:  # noqa: SLF001
            raise GreteError(
                f"the event loop of this thread has yet to take a record for {self.topic}: await the delivery, "
                "instead of delivery.wait()"
            )
        if not self._taken.wait(timeout):
            raise TimeoutError(f"{self.topic} is still unknown after {timeout:g} s: the record waits for it")
        return self._known().wait(None if deadline is None else max(0.0, deadline - time.monotonic()))

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._error is not None if self._delivery is None else self._delivery.done

    @property
    def topic(self) -> str:
        """Topic of the record."""
        topic: str = self._arguments[0]
        return topic

    @property
    def partition(self) -> int | None:
        """Partition of the record; None: not chosen yet."""
        return self._partition if self._delivery is None else self._delivery.partition

    @property
    def offset(self) -> int | None:
        """Offset of the record; None until it is known."""
        return None if self._delivery is None else self._delivery.offset

    @property
    def timestamp(self) -> int | None:
        """See `Delivery.timestamp`."""
        return None if self._delivery is None else self._delivery.timestamp

    @property
    def outcome(self) -> str | None:
        """Outcome of the record; None until it is known."""
        if self._delivery is not None:
            return self._delivery.outcome
        return None if self._error is None else "not_written"

    @property
    def error(self) -> BaseException | None:
        """Error of a record that was not written, or whose outcome is unknown; None otherwise."""
        return self._error if self._delivery is None else self._delivery.error

    @property
    def acknowledged_at(self) -> float | None:
        """See `Delivery.acknowledged_at`."""
        return None if self._delivery is None else self._delivery.acknowledged_at

    def __repr__(self) -> str:
        if self._delivery is not None:
            return repr(self._delivery)
        return f"<Delivery {self.topic}, {'waits for the topic' if self._error is None else 'not_written'}>"


class DeferredRecords:
    """Deferred records of one event loop, in order for each topic. Used in the loop's thread only."""

    def __init__(self, append: Append, limit: int, on_failed: OnFailed, set_deferring: Callable[[bool], None]) -> None:
        """`append(*arguments, since=)` takes a record. `limit`: bytes that may wait. `on_failed`: called with records
        that were not taken. `set_deferring`: called when the first record waits, and when none waits any longer.
        """
        self._append = append
        self._limit = limit
        self._on_failed = on_failed
        self._set_deferring = set_deferring
        self._bytes = 0
        self._queues: dict[str, deque[tuple[DeferredDelivery, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, topic: str) -> bool:
        """Whether records of the topic wait, which a later one must not overtake."""
        return topic in self._queues

    def add(self, arguments: tuple[Any, ...], since: int, callback: Any) -> DeferredDelivery:
        """Adds a record. Raises BufferFullError if too many wait."""
        loop = asyncio.get_running_loop()
        deferred = DeferredDelivery(arguments, since, loop)
        if self._bytes + deferred._size > self._limit:  # noqa: SLF001
            raise BufferFullError(
                f"records of {self._bytes} bytes wait for topics that are not known yet, and buffer.memory is "
                f"{self._limit}: await some deliveries before producing more"
            )
        self._bytes += deferred._size  # noqa: SLF001
        queue = self._queues.get(deferred.topic)
        if queue is None:
            queue = self._queues[deferred.topic] = deque()
            self._set_deferring(True)
            self._start(self._take_all(deferred.topic, queue))
        queue.append((deferred, callback))
        return deferred

    async def drain(self, topic: str | None = None) -> None:
        """Returns when the records of a topic (None: of all) that wait now are taken, or have failed."""
        names = list(self._queues) if topic is None else [topic]
        for last in [self._queues[name][-1][0] for name in names if self._queues.get(name)]:
            await last._wait_taken()  # noqa: SLF001

    async def _take_all(self, topic: str, queue: "deque[tuple[DeferredDelivery, Any]]") -> None:
        try:
            while queue:
                await self._take(*queue[0])
                queue.popleft()
        finally:
            # A loop that ends cancels its tasks.
            for deferred, _ in queue:
                self._fail(deferred, GreteError(f"the event loop ended while a record waited for {topic}"))
            del self._queues[topic]
            if not self._queues:
                self._set_deferring(False)

    async def _take(self, deferred: DeferredDelivery, callback: Any) -> None:
        try:
            delivery = await self._append(*deferred._arguments, since=deferred._since)  # noqa: SLF001
        except Exception as error:
            self._fail(deferred, error)
            if callback is not None:
                callback(deferred)
            return
        self._bytes -= deferred._size  # noqa: SLF001
        deferred._end(delivery, None)  # noqa: SLF001
        if callback is not None:
            self._start(self._call_when_done(delivery, callback))

    def _fail(self, deferred: DeferredDelivery, error: Exception) -> None:
        self._bytes -= deferred._size  # noqa: SLF001
        deferred._end(None, error)  # noqa: SLF001
        self._on_failed(deferred)

    async def _call_when_done(self, delivery: Delivery, callback: Any) -> None:
        try:
            await delivery
        except GreteError:
            pass  # the callback finds it in the delivery
        finally:
            callback(delivery)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
