"""Cost to report all metrics once: for /metrics (also of a swarm) and for `statistics.emitted`."""

from __future__ import annotations

import time
from collections.abc import Callable

from grete import _native
from grete.instrumentation.metrics import from_native

from .harness import batches
from .measurement import Call
from .shapes import SHAPES

NODES = 8


def measure(rounds: int, lanes: tuple[int, ...] = (8, 500)) -> list[Call]:
    """For processes with so many partitions."""
    return [call for count in lanes for call in _of(count, rounds)]


def _of(count: int, rounds: int) -> list[Call]:
    dispatcher = _native.Dispatcher()
    route = _native.Route(id=0, name="Empty.consume", topics=["orders"])
    (data,) = batches(SHAPES["empty"], 1)
    kept = []
    for partition in range(count):
        lane = _native._TestingLane(dispatcher, route, "orders", partition)
        lane.push(data)
        kept.append(lane)
    health = _native.Health(dispatcher)
    text = health.metrics().encode()
    boards = [_native.SharedText() for _ in range(NODES)]
    for board in boards:
        board.publish(text)
    nodes: list[tuple[int, _native.SharedText | None]] = list(enumerate(boards))
    ways: dict[str, tuple[str, Callable[[], object]]] = {
        "scrape": ("as text, for /metrics", health.metrics),
        "emit": ("as objects, for `statistics.emitted`", lambda: (dispatcher.lanes(), from_native(health.families()))),
        # What a node's thread does natively, once a second, is "as text" and this.
        "post": ("posted by a node for its supervisor", lambda: boards[0].publish(text)),
        "gather": (
            f"gathered by a supervisor from {NODES} such nodes",
            lambda: _native.aggregate_metrics(nodes, [], 60.0),
        ),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (_title, call) in ways.items():
            begin = time.thread_time_ns()
            call()
            found[name].append(time.thread_time_ns() - begin)
    health.close()
    return [
        Call(f"{name}-{count}", f"{title}, {count} partitions", tuple(found[name])) for name, (title, _) in ways.items()
    ]
