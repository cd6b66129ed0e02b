"""The clock of all clients that write child spans: under parents of their own, with two tags each."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

# Under one parent. Enough that the parent does not count, few enough that no tracer sends before its end.
CHILDREN = 250
TAGS = (("db.system", "postgresql"), ("db.operation", "insert"))


@dataclass(frozen=True)
class Client:
    """`parent()` is the current span inside of the block. `children(n)` begins and ends so many, one after the other,
    each of them current meanwhile. `flush` returns when the agent has all.
    """

    version: str
    parent: Callable[[], AbstractContextManager[object]]
    children: Callable[[int], None]
    flush: Callable[[], object]


def main(new: Callable[[str], Client]) -> None:
    """URL SECONDS: prints one line."""
    url, seconds = sys.argv[1:]
    client = new(url)
    window(client, float(seconds) / 4)
    count, written, sent, cpu = window(client, float(seconds))
    line = {"version": client.version, "count": count, "seconds": written, "sent_seconds": sent, "cpu_seconds": cpu}
    print(json.dumps(line), flush=True)
    os._exit(0)  # what was to be measured has been


def window(client: Client, seconds: float) -> tuple[int, float, float, float]:
    """Spans; seconds in which they were begun, tagged and ended; the same until the agent had them, and of CPU."""
    count, written, sent, cpu = 0, 0.0, 0.0, 0.0
    while sent < seconds:
        with client.parent():
            cpu_begin, begin = time.process_time(), time.perf_counter()
            client.children(CHILDREN)
            written += time.perf_counter() - begin
        client.flush()
        sent += time.perf_counter() - begin
        cpu += time.process_time() - cpu_begin
        count += CHILDREN
    return count, written, sent, cpu
