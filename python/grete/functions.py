"""Functions as consumers: one class for each way in which a function may want its records.

Those that go record by record stop between two of them when their partition is about to go: see `Job.cut_short`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from grete._core import Job, Messages
from grete.consumer import Consumer

if TYPE_CHECKING:
    from grete.processing.records import Records

Function = Callable[[Any], Any]


class FunctionConsumer(Consumer):
    """Hands `messages` to a function, whole."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def consume(self) -> Any:
        """Hands the messages over."""
        return self._function(self.messages)


class EachRecord(FunctionConsumer, ABC):
    """Calls the function for one record after the other, and marks one by one: a failure repeats none before it."""

    @abstractmethod
    def consume_told(self, records: "Records") -> Any:
        """As `consume`, and tells of each record."""


class EachMessage(EachRecord):
    """With each message."""

    def consume(self) -> None:
        """One call a message, straight from the native part."""
        _job(self).each(self._function)

    def consume_told(self, records: "Records") -> None:
        """The same."""
        job = _job(self)
        job.each(records.told(job, self._function, decoded=False))


class EachPayload(EachRecord):
    """With each payload, decoded."""

    def consume(self) -> None:
        """One call a payload, straight from the native part."""
        _job(self).each_payload(self._function)

    def consume_told(self, records: "Records") -> None:
        """The same."""
        job = _job(self)
        job.each(records.told(job, self._function, decoded=True))


class AsyncFunctionConsumer(FunctionConsumer):
    """Hands `messages` to a coroutine function, whole."""

    async def consume(self) -> None:
        """Awaits the function."""
        await self._function(self.messages)


class AsyncEachMessage(EachRecord):
    """Awaits the function for one message after the other."""

    def consume(self) -> Awaitable[None]:
        """In order: the next message starts when the one before is done."""
        return _in_turn(_job(self), self.messages, self._function)

    def consume_told(self, records: "Records") -> Awaitable[None]:
        """The same."""
        job = _job(self)
        return _in_turn(job, self.messages, records.told_async(job, self._function, decoded=False))


class AsyncEachPayload(EachRecord):
    """Awaits the function for one payload after the other."""

    async def consume(self) -> None:
        """In order: the next payload is decoded when the one before is done."""
        function, job = self._function, _job(self)
        for number, message in enumerate(self.messages, 1):
            if job.cut_short():
                return
            await function(message.payload)
            job.progress(number)

    def consume_told(self, records: "Records") -> Awaitable[None]:
        """The same."""
        job = _job(self)
        return _in_turn(job, self.messages, records.told_async(job, self._function, decoded=True))


async def _in_turn(job: Job, messages: Messages, function: Function) -> None:
    for number, message in enumerate(messages, 1):
        if job.cut_short():
            return
        await function(message)
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
