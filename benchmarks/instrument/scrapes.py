"""What it takes to tell all that is measured, once: for /metrics, of a swarm, too, and for `statistics.emitted`."""

from __future__ import annotations

import time
from collections.abc import Callable

from grete import _core
from grete.instrumentation.metrics import families

from .measurement import Call
from .rig import batches
from .shapes import SHAPES

NODES = 8


def measure(rounds: int, lanes: tuple[int, ...] = (8, 500)) -> list[Call]:
    """For processes with so many partitions."""
    return [call for count in lanes for call in _of(count, rounds)]


def _of(count: int, rounds: int) -> list[Call]:
    dispatcher = _core.Dispatcher()
    route = _core.Route(id=0, name="Empty.consume", topics=["orders"])
    (data,) = batches(SHAPES["empty"], 1)
    kept = []
    for partition in range(count):
        lane = _core._TestingLane(dispatcher, route, "orders", partition)
        lane.push(data)
        kept.append(lane)
    health = _core.Health(dispatcher)
    text = health.metrics().encode()
    boards = [_core.Board() for _ in range(NODES)]
    for board in boards:
        board.post(text)
    nodes: list[tuple[int, _core.Board | None]] = list(enumerate(boards))
    ways: dict[str, tuple[str, Callable[[], object]]] = {
        "scrape": ("as text, for /metrics", health.metrics),
        "emit": ("as objects, for `statistics.emitted`", lambda: (dispatcher.lanes(), families(health.families()))),
        # What a node's thread does natively, once a second, is "as text" and this.
        "post": ("posted by a node for its supervisor", lambda: boards[0].post(text)),
        "gather": (f"gathered by a supervisor from {NODES} such nodes", lambda: _core.gather_metrics(nodes, [], 60.0)),
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
