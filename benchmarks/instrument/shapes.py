"""Handlers, from one that costs less than its events to an ordinary one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grete

# Called when so many jobs are done as were asked for; it answers after how many more it must be called again.
Reached = Callable[[], int]
# Before a round: what is called, and after how many jobs first.
Start = Callable[[Reached, int], None]

PAYLOAD = json.dumps(
    {"id": 4711, "customer": "c-000815", "items": [{"sku": "a-1", "count": 2}], "total": 17.5}
).encode()


@dataclass(frozen=True)
class Shape:
    """Jobs of one kind. The handler is the same one in all rounds: Python learns whom it calls."""

    name: str
    title: str
    handler: Any
    start: Start
    records: int = 1
    value: bytes = b"x"
    asynchronous: bool = False


def never() -> int:
    """Before the first round."""
    raise AssertionError("no round has said what to count")


def empty() -> tuple[Any, Start]:
    """A class that only counts."""
    left, reached = 0, never

    class Empty(grete.Consumer):
        def consume(self) -> None:
            nonlocal left
            left -= 1
            if not left:
                left = reached()

    def start(call: Reached, first: int) -> None:
        nonlocal left, reached
        left, reached = first, call

    return Empty, start


def function() -> tuple[Any, Start]:
    """A function for each message that only counts."""
    left, reached = 0, never

    def handle(_: grete.Message) -> None:
        nonlocal left
        left -= 1
        if not left:
            left = reached()

    def start(call: Reached, first: int) -> None:
        nonlocal left, reached
        left, reached = first, call

    return handle, start


def parsing() -> tuple[Any, Start]:
    """A class that parses each record of a batch."""
    left, reached = 0, never

    class Parsing(grete.Consumer):
        def consume(self) -> None:
            nonlocal left
            for message in self.messages:
                json.loads(message.value or b"null")
            left -= 1
            if not left:
                left = reached()

    def start(call: Reached, first: int) -> None:
        nonlocal left, reached
        left, reached = first, call

    return Parsing, start


def coroutine() -> tuple[Any, Start]:
    """The same as `empty` on the event loop."""
    left, reached = 0, never

    class Empty(grete.Consumer):
        async def consume(self) -> None:
            nonlocal left
            left -= 1
            if not left:
                left = reached()

    def start(call: Reached, first: int) -> None:
        nonlocal left, reached
        left, reached = first, call

    return Empty, start


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("empty", "a class that does nothing, 1 record", *empty()),
        Shape("function", "a function that does nothing, 1 record", *function()),
        Shape("async", "`async def` that does nothing, 1 record", *coroutine(), asynchronous=True),
        Shape("parsing", "`json.loads` of each record, 100 records", *parsing(), 100, PAYLOAD),
    )
}
