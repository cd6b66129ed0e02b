"""Handlers, from one for which nothing weighs more than what is told of it to an ordinary one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grete

# Called when so many jobs are done as were asked for; it answers after how many more it is to be called again.
Reached = Callable[[], int]

PAYLOAD = json.dumps(
    {"id": 4711, "customer": "c-000815", "items": [{"sku": "a-1", "count": 2}], "total": 17.5}
).encode()


@dataclass(frozen=True)
class Shape:
    """Jobs of one kind."""

    name: str
    title: str
    # Of a callback and the number after which it is called first.
    handler: Callable[[Reached, int], Any]
    records: int = 1
    value: bytes = b"x"
    asynchronous: bool = False


def empty(reached: Reached, left: int) -> Any:
    """A class that only counts."""

    class Empty(grete.Consumer):
        def consume(self) -> None:
            nonlocal left
            left -= 1
            if not left:
                left = reached()

    return Empty


def function(reached: Reached, left: int) -> Any:
    """A function for each message that only counts."""

    def handle(_: grete.Message) -> None:
        nonlocal left
        left -= 1
        if not left:
            left = reached()

    return handle


def parsing(reached: Reached, left: int) -> Any:
    """A class that parses each record of a batch."""

    class Parsing(grete.Consumer):
        def consume(self) -> None:
            nonlocal left
            for message in self.messages:
                json.loads(message.value or b"null")
            left -= 1
            if not left:
                left = reached()

    return Parsing


def coroutine(reached: Reached, left: int) -> Any:
    """The same as `empty` on the event loop."""

    class Empty(grete.Consumer):
        async def consume(self) -> None:
            nonlocal left
            left -= 1
            if not left:
                left = reached()

    return Empty


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("empty", "a class that does nothing, 1 record", empty),
        Shape("function", "a function that does nothing, 1 record", function),
        Shape("async", "`async def` that does nothing, 1 record", coroutine, asynchronous=True),
        Shape("parsing", "`json.loads` of each record, 100 records", parsing, 100, PAYLOAD),
    )
}
