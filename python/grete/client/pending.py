"""What the tasks of one asyncio event loop wait for."""

import asyncio
import contextlib
from typing import Any

from grete import _core
from grete._core import Delivery


class Pending:
    """Futures that are set when the network thread makes a descriptor readable. Used in its loop's thread only.

    The loop watches the descriptor only while somebody waits: a loop that ends, or a producer that is closed, leaves
    nothing behind. The producer is not kept alive by a loop that nobody waits in.
    """

    def __init__(self, producer: _core.Producer) -> None:
        self._producer = producer
        self._watch = _core.LoopWatch(producer)
        self._waiting = 0
        self._hungry: list[asyncio.Future[None]] = []

    async def offer(self, topic: str, *record: Any) -> Delivery:
        """Takes a record, waiting for room or metadata up to `max_block`."""
        delivery = self._watch.offer(self._producer, False, topic, *record)
        if delivery is not None:
            return delivery
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._producer.max_block
        while True:
            future: asyncio.Future[None] = loop.create_future()
            timer = loop.call_at(deadline, _set, future)
            self._hungry.append(future)
            try:
                await self._await(future)
            finally:
                timer.cancel()
                with contextlib.suppress(ValueError):
                    self._hungry.remove(future)
            last = loop.time() >= deadline
            delivery = self._watch.offer(self._producer, last, topic, *record)
            if delivery is not None:
                return delivery

    async def settled(self, delivery: Delivery) -> None:
        """Returns when the outcome is known."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._watch.add(delivery, future):
            await self._await(future)

    async def _await(self, future: "asyncio.Future[None]") -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.add_reader(self._watch.fd(), self._readable)
        self._waiting += 1
        try:
            await future
        finally:
            self._waiting -= 1
            if not self._waiting:
                loop.remove_reader(self._watch.fd())

    def _readable(self) -> None:
        hungry, self._hungry = self._hungry, []
        for future in (*self._watch.take(self._producer), *hungry):
            _set(future)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
