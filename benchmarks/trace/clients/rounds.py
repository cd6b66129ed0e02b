"""The clock of all clients that send: spans are made and finished, and only then it starts."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

WARM_UP = 5
# Calls that are counted: allocations are the same each time, but for what grows now and then.
COUNTED = 15


@dataclass(frozen=True)
class Client:
    """How it makes a trace of so many finished spans, and how it encodes and sends what was made."""

    version: str
    make: Callable[[int], Any]
    send: Callable[[Any], None]


def main(new: Callable[[str], Client]) -> None:
    """URL SECONDS SIZE,SIZE,...: prints a line for each size. With the counter of allocations preloaded, it counts."""
    url, seconds, sizes = sys.argv[1:]
    client = new(url)
    counter = counter_of_allocations()
    for size in map(int, sizes.split(",")):
        for _ in range(WARM_UP):
            client.send(client.make(size))
        found = timed(client, size, float(seconds)) if counter is None else counted(client, size, counter)
        print(json.dumps({"spans": size, "version": client.version, **found}), flush=True)
    os._exit(0)  # what was to be measured has been


def timed(client: Client, size: int, seconds: float) -> dict[str, float]:
    """Calls of `send`, for so long in all; with what comes before each of them, at most four times as long."""
    took: list[float] = []
    end, left = time.perf_counter() + 4 * seconds, seconds
    cpu = 0.0
    while left > 0 and (not took or time.perf_counter() < end):
        made = client.make(size)
        cpu_begin, begin = time.process_time(), time.perf_counter()
        client.send(made)
        one = time.perf_counter() - begin
        cpu += time.process_time() - cpu_begin
        took.append(one)
        left -= one
    return {"calls": len(took), "seconds": median(took), "cpu_seconds": cpu / len(took)}


Counter = Callable[[], tuple[int, int]]


def counter_of_allocations() -> Counter | None:
    """Counter of calls and bytes so far; None without the counting library."""
    try:
        allocated = ctypes.CDLL(None).allocated
    except AttributeError:
        return None
    room = (ctypes.c_ulonglong * 2)()

    def read() -> tuple[int, int]:
        allocated(room)
        return room[0], room[1]

    return read


def counted(client: Client, size: int, read: Counter) -> dict[str, float]:
    """Allocations of one call of `send`, less those of the measurement."""
    objects, sizes = [], []
    for _ in range(COUNTED):
        made = client.make(size)
        read(), read()
        idle, before = read(), read()
        client.send(made)
        after = read()
        objects.append(after[0] - before[0] - (before[0] - idle[0]))
        sizes.append(after[1] - before[1] - (before[1] - idle[1]))
    return {"objects": median(objects), "bytes": median(sizes)}
