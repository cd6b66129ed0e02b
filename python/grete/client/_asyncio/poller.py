"""Polling in an asyncio event loop, without a thread: the loop waits for a descriptor of the dispatcher."""

import asyncio
import contextlib
from collections.abc import Callable

from grete import _native
from grete._native import Messages


class AsyncioPoller:
    """Polls of one consumer in event loops.

    Messages are taken only when the task that gets them runs, and are returned without another wait. So a wait that is
    cancelled has taken nothing, and the next poll returns what it would have returned.
    """

    def __init__(self, dispatcher: _native.Dispatcher, poll: Callable[[float, int], Messages]) -> None:
        self._dispatcher = dispatcher
        self._poll = poll
        self._is_polling = False

    async def poll(self, timeout: float | None, max_messages: int) -> Messages:  # noqa: ASYNC109
        """Returns the next messages; empty after `timeout` seconds. Raises RuntimeError for two polls at once."""
        if self._is_polling:
            raise RuntimeError("two tasks poll at once: one task polls, others may do the rest")
        self._is_polling = True
        try:
            loop = asyncio.get_running_loop()
            deadline = None if timeout is None else loop.time() + timeout
            # Other tasks run between two batches, also while there are always messages.
            await asyncio.sleep(0)
            while True:
                # First armed, then looked: what arrives after the look makes the descriptor readable.
                descriptor = self._dispatcher.arm_poll_fd()
                messages = self._poll(0.0, max_messages)
                if messages or (deadline is not None and loop.time() >= deadline):
                    return messages
                await _readable(loop, descriptor, deadline)
        finally:
            self._is_polling = False


async def _readable(loop: asyncio.AbstractEventLoop, descriptor: int, deadline: float | None) -> None:
    """Waits until the descriptor is readable, or until the deadline."""
    future: asyncio.Future[None] = loop.create_future()
    timer = None if deadline is None else loop.call_at(deadline, _resolve, future)
    loop.add_reader(descriptor, _resolve, future)
    try:
        await future
    finally:
        with contextlib.suppress(RuntimeError):  # the loop was closed under the wait
            loop.remove_reader(descriptor)
        if timer is not None:
            timer.cancel()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
