"""Functions as consumers: one class for each form in which a function takes its records.

Consumers that go record by record stop between two records when their partition is being revoked: see
`Job.should_yield`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from grete._native import Job, Messages
from grete._routing.results import ResultWriter
from grete.consumer import Consumer
from grete.errors import GreteError
from grete.payloads.encode import writer_of

if TYPE_CHECKING:
    from grete._processing.events.record_events import RecordEvents
    from grete._routing.routes import Route

Function = Callable[[Any], Any]


class FunctionConsumer(Consumer):
    """Passes `messages` to a function as a whole."""

    def __init__(self, function: Function, dropped: Callable[[type], None]) -> None:
        """`dropped` gets the type of a result that goes nowhere."""
        self._function = function
        self._dropped = dropped

    def consume(self) -> Any:
        """Calls the function with the messages."""
        return self._function(self.messages)


class EachRecord(FunctionConsumer, ABC):
    """Calls the function for one record after the other, and marks each one: a failure repeats no record before it."""

    @abstractmethod
    def consume_with_events(self, records: "RecordEvents") -> Any:
        """Same as `consume`, with events for each record."""


class EachMessage(EachRecord):
    """Calls the function with each message."""

    def consume(self) -> None:
        """Runs the native loop over messages."""
        if (kind := _job(self).each(self._function)) is not None:
            self._dropped(kind)

    def consume_with_events(self, records: "RecordEvents") -> None:
        """Runs the native loop over messages, with events for each record."""
        job = _job(self)
        if (kind := job.each(records.wrap(job, self._function, decoded=False))) is not None:
            self._dropped(kind)


class EachPayload(EachRecord):
    """Calls the function with each decoded payload."""

    def consume(self) -> None:
        """Runs the native loop over payloads."""
        if (kind := _job(self).each_payload(self._function)) is not None:
            self._dropped(kind)

    def consume_with_events(self, records: "RecordEvents") -> None:
        """Runs the native loop over messages, with events for each record and its payload."""
        job = _job(self)
        if (kind := job.each(records.wrap(job, self._function, decoded=True))) is not None:
            self._dropped(kind)


class AsyncFunctionConsumer(FunctionConsumer):
    """Passes `messages` to a coroutine function as a whole."""

    async def consume(self) -> Any:
        """Awaits the function with the messages. Returns its result."""
        return await self._function(self.messages)


class AsyncEachMessage(EachRecord):
    """Awaits the function for one message after the other."""

    def consume(self) -> Awaitable[None]:
        """Processes the messages in order: the next message starts when the one before is done."""
        return _call_each(_job(self), self.messages, self._function, self._dropped)

    def consume_with_events(self, records: "RecordEvents") -> Awaitable[None]:
        """Processes the messages in order, with events for each record."""
        job = _job(self)
        call = records.wrap_async(job, self._function, decoded=False)
        return _call_each(job, self.messages, call, self._dropped)


class AsyncEachPayload(EachRecord):
    """Awaits the function for one payload after the other."""

    async def consume(self) -> None:
        """Processes the payloads in order: the next payload is decoded when the one before is done."""
        function, job = self._function, _job(self)
        for number, message in enumerate(self.messages, 1):
            if job.should_yield():
                return
            result = await function(message.payload)
            if result is not None:
                self._dropped(type(result))
            job.progress(number)

    def consume_with_events(self, records: "RecordEvents") -> Awaitable[None]:
        """Processes the payloads in order, with events for each record."""
        job = _job(self)
        call = records.wrap_async(job, self._function, decoded=True)
        return _call_each(job, self.messages, call, self._dropped)


async def _call_each(job: Job, messages: Messages, function: Function, dropped: Callable[[type], None]) -> None:
    for number, message in enumerate(messages, 1):
        if job.should_yield():
            return
        result = await function(message)
        if result is not None:
            dropped(type(result))
        job.progress(number)


class Planned(Consumer):
    """Consumer with a call plan, which is bound to the instance before its first job."""

    _function: Function

    def __init__(self, route: "Route") -> None:
        self._route = route

    def initialize(self) -> None:
        """Makes the values that the process shares, and binds the call."""
        context = self._require_context("initialize")
        plan = self._route.plan
        if plan is None:
            raise AssertionError(f"{self._route.name} has no call plan")
        self._bind(context.providers.get(plan.process_providers, self._route.app))

    def _bind(self, process_values: Any) -> None:
        route = self._route
        if route.plan is None:
            raise AssertionError(f"{route.name} has no call plan")
        self._function = route.plan.bind(
            self, route.handler, route.app, process_values, route.key_decoders, self._on_dropped
        )

    def _on_dropped(self, result: Any) -> None:
        if hasattr(result, "__await__"):
            if hasattr(result, "close"):
                result.close()
            raise GreteError(
                f"{self._route.name} returned {type(result).__name__}, which is not awaited: "
                "await it in an async def handler, and return its result"
            )
        self._route.warn_dropped(type(result))


class PlannedEach(EachMessage, Planned):
    """Calls the plan with each message."""

    def __init__(self, route: "Route") -> None:
        Planned.__init__(self, route)
        self._dropped = route.warn_dropped


class PublishedPayloads(PlannedEach):
    """Calls the function with each payload, and publishes what it returns, in the native loop."""

    def initialize(self) -> None:
        """Binds the plan, which is called where events have listeners, and finds what the loop needs."""
        super().initialize()
        plan = self._route.plan
        if plan is None or plan.result_topic is None:
            raise AssertionError(f"{self._route.name} publishes nothing")
        topic, producer = plan.result_topic, self.producer
        write = ResultWriter(topic, producer).write
        own = producer._producer  # noqa: SLF001 (the loop itself adds the records to the job)
        self._publication = own, topic.topic, topic.plain, writer_of(topic.encode_value), write

    def consume(self) -> None:
        """Runs the native loop over payloads and results."""
        _job(self).each_published(self._route.handler, *self._publication)  # type: ignore[arg-type]


class PlannedBatch(Planned):
    """Calls the plan with the messages as a whole."""

    def consume(self) -> None:
        """Calls the plan, which writes the result."""
        self._function(self.messages)


class AsyncPlanned(Planned):
    """Planned consumer of the event loop."""

    async def initialize(self) -> None:  # type: ignore[override]
        """Makes the values that the process shares, and binds the call."""
        context = self._require_context("initialize")
        plan = self._route.plan
        if plan is None:
            raise AssertionError(f"{self._route.name} has no call plan")
        self._bind(await context.providers.get_async(plan.process_providers, self._route.app))


class AsyncPlannedEach(AsyncPlanned, AsyncEachMessage):
    """Awaits the plan for one message after the other."""

    def __init__(self, route: "Route") -> None:
        Planned.__init__(self, route)
        self._dropped = route.warn_dropped


class AsyncPlannedBatch(AsyncPlanned):
    """Awaits the plan with the messages as a whole."""

    async def consume(self) -> None:
        """Awaits the plan, which writes the result."""
        await self._function(self.messages)


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


_PLANNED: dict[tuple[bool, bool], type[Planned]] = {
    (False, False): PlannedEach,
    (True, False): PlannedBatch,
    (False, True): AsyncPlannedEach,
    (True, True): AsyncPlannedBatch,
}


def new_function_consumer(route: "Route") -> Consumer:
    """Returns a consumer of a function, for one unit."""
    if route.plan is not None and route.plan.publishes_payloads:
        return PublishedPayloads(route)
    if route.plan is not None:
        return _PLANNED[route.plan.is_batch, route.plan.is_async](route)
    function: Any = route.handler
    return _STYLES[route.style, route.is_async](function, route.warn_dropped)
