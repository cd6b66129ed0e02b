"""Jobs without a listener, and the same with all calls taken out that emit events."""

from __future__ import annotations

from benchmarks.common.progress import say
from grete.instrumentation import Monitor

from .harness import run
from .measurement import Pair
from .shapes import SHAPES, Shape

# Jobs of a round: some ten milliseconds.
JOBS = {"empty": 4000, "function": 4000, "async": 1000, "parsing": 100}


def measure(rounds: int) -> list[Pair]:
    """All shapes."""
    return [pair(shape, rounds) for shape in SHAPES.values()]


def pair(shape: Shape, rounds: int) -> Pair:
    """In turns, and by turns first."""
    say(f"jobs: {shape.title}")
    jobs, monitor = JOBS[shape.name], Monitor()
    found = []
    for number in range(rounds):
        costs = {silent: run(shape, jobs, monitor, silent=silent) for silent in (bool(number % 2), not number % 2)}
        found.append((costs[True], costs[False]))
    return Pair(shape.name, shape.title, shape.records, tuple(found))
