"""Events of single records, for handlers that get them one by one. Used only while a listener is subscribed."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from grete._native import Job, Message
from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor


class RecordEvents:
    """Record events of one handler. Check before use that `started` or `finished` has a listener."""

    __slots__ = ("_handler", "finished", "started")

    def __init__(self, monitor: Monitor, handler: str) -> None:
        """`handler`: name of the handler in events."""
        self._handler = handler
        self.started = monitor.event("message.process")
        self.finished = monitor.event("message.processed")

    def wrap(self, job: Job, function: Callable[[Any], Any], *, decoded: bool) -> Callable[[Message], Any]:
        """Wraps a function for messages: emits events around each call. `decoded`: the function gets the payload."""

        @functools.wraps(function)  # so that errors name the user's function
        def call(message: Message) -> Any:
            payload = self._emit_started(job, message)
            begin = monotonic()
            try:
                result = function(message.payload if decoded else message)
            except BaseException as error:
                self._emit_finished(payload, begin, error)
                raise
            self._emit_finished(payload, begin, None)
            return result

        return call

    def wrap_async(
        self, job: Job, function: Callable[[Any], Awaitable[Any]], *, decoded: bool
    ) -> Callable[[Message], Awaitable[Any]]:
        """Wraps a coroutine function in the same way."""

        @functools.wraps(function)
        async def call(message: Message) -> Any:
            payload = self._emit_started(job, message)
            begin = monotonic()
            try:
                result = await function(message.payload if decoded else message)
            except BaseException as error:
                self._emit_finished(payload, begin, error)
                raise
            self._emit_finished(payload, begin, None)
            return result

        return call

    def _emit_started(self, job: Job, message: Message) -> dict[str, Any]:
        payload = {
            "job": job.id,
            "handler": self._handler,
            "topic": job.topic,
            "partition": job.partition,
            "slot": job.slot,
            "offset": message.offset,
            "message": message,
        }
        if self.started:
            self.started.emit(**payload)
        return payload

    def _emit_finished(self, payload: dict[str, Any], begin: float, error: BaseException | None) -> None:
        if self.finished:
            self.finished.emit(**payload, time=monotonic() - begin, error=error)
