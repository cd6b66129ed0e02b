"""Allocations of a check for an event's listeners."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable

from grete.instrumentation import Monitor

from .calls import calls, empty, guard, nothing
from .measurement import Allocated

CALLS = 1_000_000

Loop = Callable[[int], object]


def measure(times: int = CALLS) -> list[Allocated]:
    """Measures without a listener; and, to see that allocations would be seen, with one."""
    monitor, heard = Monitor(), list[object]()
    silent, loud = monitor.event("app.running"), monitor.event("app.stopped")
    loud.subscribe(heard.append)
    found = [
        allocated("`if event:`, no listener", guard(silent), times),
        allocated("`monitor.measure(event, f)`, no listener", calls(monitor.measure, silent, nothing), times),
    ]
    few = max(1, times // 1000)
    title = "the same, one listener that keeps all"
    return [*found, allocated(title, calls(monitor.measure, loud, nothing), few, silent=False)]


def allocated(title: str, loop: Loop, times: int, *, silent: bool = True) -> Allocated:
    """`loop` beside an empty one."""
    (left, peak, blocks), (idle_left, idle_peak, idle_blocks) = _look(loop, times), _look(empty, times)
    return Allocated(title, silent, times, left - idle_left, peak - idle_peak, blocks - idle_blocks)


def _look(loop: Loop, times: int) -> tuple[int, int, int]:
    """Bytes that are left, bytes at the peak, blocks that are left."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            loop(1000)  # what is made once, or kept to be used again, is made now
        before = sys.getallocatedblocks()
        loop(times)
        blocks = sys.getallocatedblocks() - before
        tracemalloc.start()
        loop(10)
        start, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        loop(times)
        end, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    return end - start, peak - start, blocks
