"""Functions as consumers, with jobs made up here."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import grete
from grete import testing
from grete._routing import function_consumers
from grete._routing.routes import Route


class FakeJob:
    """Rows are numbers; what was done is noted."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self.done = 0
        self.leaving_after = len(rows)
        self.cut = False

    def each(self, function: Callable[[int], object]) -> None:
        for row in self.rows:
            function(row)
            self.done += 1

    def each_payload(self, function: Callable[[str], object]) -> None:
        self.each(lambda row: function(f"payload {row}"))

    def progress(self, rows: int) -> None:
        self.done = rows

    def should_yield(self) -> bool:
        self.cut = self.done >= self.leaving_after
        return self.cut


class Row(int):
    """A message, as far as the asynchronous handlers read it."""

    @property
    def payload(self) -> str:
        return f"payload {int(self)}"


def prepare(
    function: function_consumers.Function, style: str, is_async: bool
) -> tuple[function_consumers.FunctionConsumer, FakeJob]:
    route = Route(id=0, topics=("orders",), handler=function, name="f", style=style, is_async=is_async)
    consumer: Any = function_consumers.new_function_consumer(route)
    job = FakeJob([Row(1), Row(2), Row(3)])
    consumer._job, consumer.messages = job, job.rows
    return consumer, job


WANTED: dict[str, list[object]] = {
    "messages": [[1, 2, 3]],
    "message": [1, 2, 3],
    "payload": ["payload 1", "payload 2", "payload 3"],
}


@pytest.mark.parametrize("style", ["messages", "message", "payload"])
@pytest.mark.parametrize("is_async", [False, True])
def test_each_style_gets_what_it_wants(style: str, is_async: bool) -> None:
    got: list[object] = []

    async def wait(x: object) -> None:
        await asyncio.sleep(0)
        got.append(x)

    consumer, job = prepare(wait if is_async else got.append, style, is_async)
    result: Any = consumer.consume()
    if is_async:
        asyncio.run(result)
    assert got == WANTED[style]
    assert job.done == (0 if style == "messages" else 3)


@pytest.mark.parametrize("style", ["message", "payload"])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_came_before_a_failure_is_done(style: str, is_async: bool) -> None:
    calls: list[object] = []

    def fail(x: object) -> None:
        calls.append(x)
        if len(calls) == 3:
            raise ValueError("no")

    async def fail_later(x: object) -> None:
        fail(x)

    async def consume() -> None:
        result = consumer.consume()
        if result is not None:
            await result

    consumer, job = prepare(fail_later if is_async else fail, style, is_async)
    with pytest.raises(ValueError, match="no"):
        asyncio.run(consume())
    assert job.done == 2


@pytest.mark.parametrize("style", ["message", "payload"])
@pytest.mark.parametrize("done", [0, 2])
def test_coroutine_functions_stop_between_two_records_when_the_partition_leaves(style: str, done: int) -> None:
    got: list[object] = []

    async def wait(x: object) -> None:
        got.append(x)

    consumer, job = prepare(wait, style, True)
    job.leaving_after = done
    result: Any = consumer.consume()
    asyncio.run(result)
    assert got == WANTED[style][:done]
    assert (job.done, job.cut) == (done, True)


@dataclasses.dataclass
class Bill:
    id: int


def test_the_type_of_a_messages_payload_decodes_it() -> None:
    seen: list[object] = []

    def one(message: grete.Message[Bill]) -> None:
        seen.append((message.offset, message.payload))

    def many(messages: grete.Messages[Bill]) -> None:
        seen.extend(messages.payloads())

    async def later(message: grete.Message[Bill] | None) -> None:
        seen.append(message.payload if message is not None else None)

    for handler in (one, many, later):
        testing.consume(handler, "bills", [b'{"id": 3}'])
    assert seen == [(0, Bill(3)), Bill(3), Bill(3)]


def test_the_type_of_a_messages_payload_must_be_that_of_payload() -> None:
    def one(message: grete.Message[Bill]) -> None:
        """Nothing."""

    with pytest.raises(grete.ConfigError, match="payload=int gives int, and the function takes Bill"):
        grete.App("a").consumer("bills", payload=int)(one)
