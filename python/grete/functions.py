"""Functions as consumers: one class for each way in which a function may want its records.

Those that go record by record stop between two of them when their partition is about to go: see `Job.cut_short`.
"""

from collections.abc import Callable
from typing import Any

from grete._core import Job
from grete.consumer import Consumer

Function = Callable[[Any], Any]


class FunctionConsumer(Consumer):
    """Hands `messages` to a function, whole."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def consume(self) -> Any:
        """Hands the messages over."""
        return self._function(self.messages)


class EachMessage(FunctionConsumer):
    """Calls the function with each message, and marks one by one: a failure repeats none that has succeeded."""

    def consume(self) -> None:
        """One call a message, straight from the native part."""
        job, function, host = _job(self), self._function, self._host
        if host is not None and host.records.heard.now:
            function = host.records.told(job, function, decoded=False)
        job.each(function)


class EachPayload(FunctionConsumer):
    """Calls the function with each payload, decoded, and marks one by one."""

    def consume(self) -> None:
        """One call a payload, straight from the native part."""
        job, function, host = _job(self), self._function, self._host
        if host is not None and host.records.heard.now:
            job.each(host.records.told(job, function, decoded=True))
        else:
            job.each_payload(function)


class AsyncFunctionConsumer(FunctionConsumer):
    """Hands `messages` to a coroutine function, whole."""

    async def consume(self) -> None:
        """Awaits the function."""
        await self._function(self.messages)


class AsyncEachMessage(FunctionConsumer):
    """Awaits the function for one message after the other, and marks one by one."""

    async def consume(self) -> None:
        """In order: the next message starts when the one before is done."""
        job, function, host = _job(self), self._function, self._host
        if host is not None and host.records.heard.now:
            function = host.records.told_async(job, function, decoded=False)
        for number, message in enumerate(self.messages, 1):
            if job.cut_short():
                return
            await function(message)
            job.progress(number)


class AsyncEachPayload(FunctionConsumer):
    """Awaits the function for one payload after the other, and marks one by one."""

    async def consume(self) -> None:
        """In order: the next payload is decoded when the one before is done."""
        job, function, host = _job(self), self._function, self._host
        told = None
        if host is not None and host.records.heard.now:
            told = host.records.told_async(job, function, decoded=True)
        for number, message in enumerate(self.messages, 1):
            if job.cut_short():
                return
            await (function(message.payload) if told is None else told(message))
            job.progress(number)


def _job(consumer: Consumer) -> Job:
    if (job := consumer._job) is None:  # noqa: SLF001
        raise AssertionError("consume runs without a job")
    return job


_STYLES: dict[tuple[str, bool], type[FunctionConsumer]] = {
    ("messages", False): FunctionConsumer,
    ("message", False): EachMessage,
    ("payload", False): EachPayload,
    ("messages", True): AsyncFunctionConsumer,
    ("message", True): AsyncEachMessage,
    ("payload", True): AsyncEachPayload,
}


def new(function: Function, style: str, is_async: bool) -> FunctionConsumer:
    """A consumer for one unit. `style`: "messages", "message" or "payload"."""
    return _STYLES[style, is_async](function)
