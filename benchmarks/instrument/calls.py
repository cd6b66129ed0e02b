"""Single calls: nanoseconds each, less those of the loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

from grete.instrumentation import EventChannel, Monitor, clock

from .measurement import Call

Loop = Callable[[int], float]

TIMES = 100_000


def nothing() -> None:
    """Function that is measured."""


def listener(_: object, **__: object) -> None:
    """Listener that does nothing."""


def every() -> dict[str, tuple[str, Loop]]:
    """Title and loop of each call, by name. A loop makes so many calls and returns the seconds."""
    monitor = Monitor()
    silent, heard = monitor.event("app.running"), monitor.event("app.stopped")
    heard.subscribe(listener)
    return {
        "guard": ("`if event:`, no listener", guard(silent)),
        "call": ("an empty call `f()`", calls(nothing)),
        "measure": ("`monitor.measure(event, f)`, no listener", calls(monitor.measure, silent, nothing)),
        "measure-heard": ("the same, one listener", calls(monitor.measure, heard, nothing)),
        "instrument": ("`monitor.instrument(name)`, no listener", calls(monitor.instrument, silent.name)),
        "emit": ('`event.emit(topic="orders")`, no listener', emit(silent)),
        "emit-heard": ("the same, one listener", emit(heard)),
        **peers(),
        "monotonic": ("`clock.monotonic()`", calls(clock.monotonic)),
        "realtime": ("`clock.realtime()`", calls(clock.realtime)),
        "datetime": ("`datetime.now(UTC).timestamp()`", dates),
    }


def peers() -> dict[str, tuple[str, Loop]]:
    """Calls of other libraries, with and without a listener: blinker, and OpenTelemetry's API without its SDK."""
    import blinker
    from opentelemetry import trace

    signal, connected = blinker.Signal(), blinker.Signal()
    connected.connect(listener)
    tracer = trace.get_tracer("benchmark")

    def spans(times: int) -> float:
        begin = time.thread_time()
        for _ in repeat(None, times):
            tracer.start_span("x").end()
        return time.thread_time() - begin

    def current(times: int) -> float:
        begin = time.thread_time()
        for _ in repeat(None, times):
            with tracer.start_as_current_span("x"):
                nothing()
        return time.thread_time() - begin

    return {
        "blinker": ("blinker: `signal.send()`, no receiver", calls(signal.send)),
        "blinker-heard": ("the same, one receiver", calls(connected.send)),
        "otel": ("OpenTelemetry API, no SDK: `start_span(name).end()`", spans),
        "otel-current": ("the same: `with start_as_current_span(name): f()`", current),
    }


def guard(event: EventChannel) -> Loop:
    """The look before a payload is built."""

    def run(times: int) -> float:
        begin = time.thread_time()
        for _ in repeat(None, times):
            if event:
                raise AssertionError
        return time.thread_time() - begin

    return run


def emit(event: EventChannel) -> Loop:
    """With a payload."""

    def run(times: int) -> float:
        begin = time.thread_time()
        for _ in repeat(None, times):
            event.emit(topic="orders")
        return time.thread_time() - begin

    return run


def dates(times: int) -> float:
    """The way through an object."""
    begin = time.thread_time()
    for _ in repeat(None, times):
        datetime.now(UTC).timestamp()
    return time.thread_time() - begin


def calls(function: Callable[..., Any], *args: object) -> Loop:
    """Loop of a function with always the same arguments."""

    def run(times: int) -> float:
        begin = time.thread_time()
        for _ in repeat(None, times):
            function(*args)
        return time.thread_time() - begin

    return run


def empty(times: int) -> float:
    """The loop alone."""
    begin = time.thread_time()
    for _ in repeat(None, times):
        pass
    return time.thread_time() - begin


def measure(rounds: int, times: int = TIMES) -> list[Call]:
    """Rounds in which all take turns."""
    loops = every()
    found: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        loop = empty(times)
        for name, (_title, run) in loops.items():
            found[name].append((run(times) - loop) * 1e9 / times)
    return [Call(name, title, tuple(found[name])) for name, (title, _) in loops.items()]
