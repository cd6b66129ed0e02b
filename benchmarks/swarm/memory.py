"""An App that keeps 300 MB, under load: one process, four of them, four nodes with their supervisor."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError
from benchmarks.consume.topics import JSON, Topic
from grete._swarm.status import memory

from . import smaps
from .apps.counts import total
from .fleet import Fleet, Plan, fleet
from .measurement import Bench, Measurement, Memory

TOPIC = Topic("memory", 3_000_000, "json", JSON, partitions=8)
PROCESSES, WORKERS = 4, 5


@dataclass(frozen=True)
class Way:
    """`read`: see `apps.memory`. `share`: of the time that the load lasts for the ones that are judged."""

    name: str
    title: str
    nodes: int = 0
    processes: int = 1
    read: str = "hot"
    share: float = 1.0


WAYS = (
    Way("one", "grete run"),
    Way("nodes", f"grete swarm, {PROCESSES} nodes", nodes=PROCESSES),
    Way("processes", f"{PROCESSES} x grete run", processes=PROCESSES, share=0.2),
    Way("nodes-any", f"grete swarm, {PROCESSES} nodes, each object is read", nodes=PROCESSES, read="any", share=0.2),
)


def measure(bench: Bench, found: Measurement, seconds: float) -> None:
    """One after the other: they would share libraries."""
    for way in WAYS:
        try:
            row = one(bench, way, seconds * way.share)
        except ClientFailedError as error:
            found.failed(f"memory, {way.name}", error)
            continue
        found.memory.append(row)
        say(f"  memory {way.name}: {row.pss / 1e6:,.1f} MB after {row.seconds:.0f} s, {row.records:,} records")


def one(bench: Bench, way: Way, seconds: float) -> Memory:
    """Looks every two seconds from when all have their partitions."""
    environment = {"READ": way.read}
    if bench.quick:
        environment["PRELOAD"] = "15000000"
    plan = Plan("memory", TOPIC.name, TOPIC.partitions, f"memory-{way.name}", way.nodes, way.processes, 5, environment)
    with fleet(bench.broker.bootstrap, plan) as running:
        running.until_shared()
        begin = time.perf_counter()
        course: list[tuple[float, int]] = []
        sums: list[memory.Memory] = []
        while not course or course[-1][0] < seconds:
            # What is measured is the length of time itself: this is no wait for a condition.
            time.sleep(min(2.0, max(seconds - (time.perf_counter() - begin), 0.01)))
            sums = [look(pid) for pid in running.pids]
            course.append((time.perf_counter() - begin, sum(one_of["pss"] or 0 for one_of in sums)))
        records = total(running.directory)
        running.check()
        if not records or records >= TOPIC.records or len(sums) != way.processes + way.nodes:
            raise ClientFailedError(f"{len(sums)} processes handled {records} records of {TOPIC.records}")
        return _row(way, running, records, course, sums)


def look(pid: int) -> memory.Memory:
    """Memory of a process by the product's own measure."""
    found = memory.read_memory(pid)
    if found["pss"] is None:
        raise ClientFailedError(f"the memory of process {pid} is unknown: {found['missing']}")
    return found


def _row(way: Way, running: Fleet, records: int, course: list[tuple[float, int]], sums: list[memory.Memory]) -> Memory:
    pids = running.pids
    largest = max(pids[-max(way.nodes, way.processes) :], key=lambda pid: look(pid)["private"] or 0)
    late = [pss for at, pss in course if at >= course[-1][0] * 2 / 3]
    return Memory(
        way.name,
        way.title,
        len(sums),
        course[-1][0],
        records,
        max(late),
        tuple(course),
        sum(one_of["rss"] or 0 for one_of in sums),
        sum(one_of["private"] or 0 for one_of in sums),
        look(largest)["private"] or 0,
        dict(smaps.private(largest).most_common()),
        median(timed(largest) for _ in range(11)),
    )


def timed(pid: int) -> float:
    """Seconds for one look."""
    begin = time.perf_counter()
    look(pid)
    return time.perf_counter() - begin
