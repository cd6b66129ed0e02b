"""Deliveries awaited by the tasks of one asyncio event loop."""

import asyncio
import contextlib
from typing import Any

from grete import _native
from grete._native import Delivery


class AsyncioDeliveries:
    """Futures that are set when the network thread makes a descriptor readable. Used in its loop's thread only.

    The loop watches the descriptor only while tasks wait: a loop that ends, or a producer that is closed, leaves
    nothing behind. A loop without waiting tasks does not keep the producer alive.
    """

    def __init__(self, producer: _native.Producer) -> None:
        self._producer = producer
        self._watcher = _native.AsyncioDeliveryWatcher(producer)
        self._waiter_count = 0
        self._space_waiters: list[asyncio.Future[None]] = []

    async def append(self, topic: Any, *record: Any) -> Delivery:
        """Takes a record, waiting for room or metadata for up to `max.block.ms`."""
        since = self._producer._now()  # noqa: SLF001
        delivery = self._watcher.try_append(self._producer, since, False, topic, *record)
        if delivery is not None:
            return delivery
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._producer.max_block
        while True:
            future: asyncio.Future[None] = loop.create_future()
            timer = loop.call_at(deadline, _resolve, future)
            self._space_waiters.append(future)
            try:
                await self._wait(future)
            finally:
                timer.cancel()
                with contextlib.suppress(ValueError):
                    self._space_waiters.remove(future)
            is_last = loop.time() >= deadline
            delivery = self._watcher.try_append(self._producer, since, is_last, topic, *record)
            if delivery is not None:
                return delivery

    async def wait_settled(self, delivery: Delivery) -> None:
        """Returns when the outcome is known."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._watcher.add(delivery, future):
            await self._wait(future)

    async def _wait(self, future: "asyncio.Future[None]") -> None:
        loop = asyncio.get_running_loop()
        if not self._waiter_count:
            loop.add_reader(self._watcher.fd(), self._on_readable)
            loop.add_reader(self._producer._event_fd(), self._on_log_events)  # noqa: SLF001
        self._waiter_count += 1
        try:
            await future
        finally:
            self._waiter_count -= 1
            if not self._waiter_count:
                loop.remove_reader(self._watcher.fd())
                loop.remove_reader(self._producer._event_fd())  # noqa: SLF001

    def _on_log_events(self) -> None:
        self._producer.poll(0.0)

    def _on_readable(self) -> None:
        waiters, self._space_waiters = self._space_waiters, []
        for future in (*self._watcher.take_completed(self._producer), *waiters):
            _resolve(future)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
