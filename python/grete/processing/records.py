"""The events of single records, for handlers that get them one by one. Nothing of this runs while nobody listens."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from grete._core import Job, Message
from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor


class Records:
    """Of one handler. Whoever calls it asks before whether anybody listens: `if records:`."""

    __slots__ = ("_handler", "_process", "_processed")

    def __init__(self, monitor: Monitor, handler: str) -> None:
        """`handler` is what it is called in events."""
        self._handler = handler
        self._process = monitor.event("message.process")
        self._processed = monitor.event("message.processed")

    def __bool__(self) -> bool:
        return bool(self._process or self._processed)

    def told(self, job: Job, function: Callable[[Any], Any], *, decoded: bool) -> Callable[[Message], Any]:
        """For messages: tells around each call of the function, which gets the message, or its payload if `decoded`."""

        @functools.wraps(function)  # an error that speaks of it names the user's
        def call(message: Message) -> Any:
            payload = self._begin(job, message)
            begin = monotonic()
            try:
                result = function(message.payload if decoded else message)
            except BaseException as error:
                self._end(payload, begin, error)
                raise
            self._end(payload, begin, None)
            return result

        return call

    def told_async(
        self, job: Job, function: Callable[[Any], Awaitable[Any]], *, decoded: bool
    ) -> Callable[[Message], Awaitable[Any]]:
        """The same for a coroutine function."""

        @functools.wraps(function)
        async def call(message: Message) -> Any:
            payload = self._begin(job, message)
            begin = monotonic()
            try:
                result = await function(message.payload if decoded else message)
            except BaseException as error:
                self._end(payload, begin, error)
                raise
            self._end(payload, begin, None)
            return result

        return call

    def _begin(self, job: Job, message: Message) -> dict[str, Any]:
        payload = {
            "job": job.id,
            "handler": self._handler,
            "topic": job.topic,
            "partition": job.partition,
            "slot": job.slot,
            "offset": message.offset,
            "message": message,
        }
        if self._process:
            self._process.emit(**payload)
        return payload

    def _end(self, payload: dict[str, Any], begin: float, error: BaseException | None) -> None:
        if self._processed:
            self._processed.emit(**payload, time=monotonic() - begin, error=error)
