"""A handler that computes in Python: what do threads, processes and nodes bring on two cores?"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError
from benchmarks.consume.topics import JSON, Topic

from .apps.counts import total
from .fleet import Plan, fleet
from .measurement import Bench, Cpu, Measurement

TOPIC = Topic("cpu", 400_000, "json", JSON, partitions=4)
# About two milliseconds for a record: beside that, the broker has nothing to do.
STEPS = 30_000


@dataclass(frozen=True)
class Way:
    """All have two threads for handlers."""

    name: str
    title: str
    nodes: int = 0
    processes: int = 1
    workers: int = 1


WAYS = (
    Way("threads", "grete run, 2 workers", workers=2),
    Way("nodes", "grete swarm, 2 nodes of 1 worker", nodes=2),
    Way("processes", "2 x grete run, 1 worker each", processes=2),
)


def measure(bench: Bench, found: Measurement, rounds: int) -> None:
    """In turn, round after round."""
    rates: dict[str, list[float]] = {way.name: [] for way in WAYS}
    for number, way in itertools.product(range(1, rounds + 1), WAYS):
        try:
            rates[way.name].append(one(bench, way, number))
        except ClientFailedError as error:
            found.failed(f"cpu, {way.name}, round {number}", error)
            continue
        say(f"  cpu round {number}/{rounds} {way.name}: {rates[way.name][-1]:,.0f} records/s")
    found.cpu += [Cpu(way.name, way.title, tuple(rates[way.name])) for way in WAYS if rates[way.name]]


def one(bench: Bench, way: Way, number: int) -> float:
    """Records per second in one window."""
    settle, seconds = bench.pick(1.5, 0.5), bench.pick(6.0, 2.0)
    group = f"cpu-{way.name}-{number}"
    environment = {"STEPS": STEPS}
    plan = Plan("cpu", TOPIC.name, TOPIC.partitions, group, way.nodes, way.processes, way.workers, environment)
    with fleet(bench.broker.bootstrap, plan) as running:
        running.until_shared()
        running.until(lambda: total(running.directory), 30, "a first record")
        # What is measured is the length of time itself: these are no waits for a condition.
        time.sleep(settle)
        before, at = total(running.directory), time.perf_counter()
        time.sleep(seconds)
        after, end = total(running.directory), time.perf_counter()
        running.check()
    if after == before:
        raise ClientFailedError("handled nothing")
    return (after - before) / (end - at)
