"""Consume, transform, produce: how fast, at what CPU, and how far the committed offsets are behind what is written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.common.pinning import pinned
from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client
from benchmarks.consume.catalogue import RDKAFKA_TUNED
from benchmarks.consume.topics import Topic

from .measurement import Bench, Measurement, Transform

JSON = "JSON values of ~107 B, keys of 8 B"
RECORDS = 2_000_000
TOPICS = {
    1: Topic("transform1", RECORDS, "json", JSON),
    8: Topic("transform8", RECORDS, "json", JSON, partitions=8),
}
# Often, so that the lag says how long offsets are held back, and not how seldom they are committed.
COMMIT = {"auto.commit.interval.ms": "100"}
LOOK_EVERY = 0.1


@dataclass(frozen=True)
class Loop:
    """One way to write it."""

    name: str
    title: str
    module: str
    partitions: int
    settings: dict[str, str]

    def command(self, bench: Bench, group: str, out: str, records: int) -> list[str]:
        """The whole command line."""
        words = [sys.executable, "-m", f"benchmarks.process.clients.{self.module}", bench.broker.bootstrap]
        words += [TOPICS[self.partitions].name, str(self.partitions), str(records)]
        return [*words, f"group={group}", f"out={out}", *(f"{name}={value}" for name, value in self.settings.items())]


def _loops() -> dict[str, Loop]:
    grete = {
        "each": "Grete, class, produce() for each record",
        "many": "Grete, class, produce_many() for each batch",
        "async": "Grete, async def consume, produce() for each record",
    }
    loops = [
        Loop(f"grete-{style}-{partitions}", title, "grete_transform", partitions, {"style": style, **COMMIT})
        for partitions in TOPICS
        for style, title in grete.items()
    ]
    title = "confluent-kafka, consume(10000), produce, poll(0), flush, commit"
    loops += [
        Loop(f"confluent-{partitions}", title, "confluent_transform", partitions, dict(RDKAFKA_TUNED))
        for partitions in TOPICS
    ]
    return {loop.name: loop for loop in loops}


LOOPS = _loops()


def measure(bench: Bench, found: Measurement, rounds: int, records: int) -> None:
    """All loops, round after round."""
    for number in range(1, rounds + 1):
        for loop in LOOPS.values():
            try:
                run = one(bench, loop, number, min(records, RECORDS))
            except ClientFailedError as error:
                found.failed(f"transform, {loop.name}", error)
                continue
            found.transforms.append(run)
            say(
                f"  round {number}/{rounds} transform {loop.name}: {run.per_second:,.0f} records/s, "
                f"{run.cpu_us:.3f} us of CPU per record, {run.lag_ms:.0f} ms behind, {run.ahead:,} ahead"
            )


def one(bench: Bench, loop: Loop, number: int, records: int) -> Transform:
    """One process, with an output topic and a group of its own."""
    admin = bench.broker.admin
    group = out = f"transform-{loop.name}-{number}"
    admin.create_topic(out, loop.partitions, 1, None)
    try:
        with looking(bench, group, out, records) as looks:
            lines = run_client(loop.command(bench, group, out, records), bench.cores.client, bench.timeout)
        written, committed = sum(admin.end_offsets(out).values()), sum(admin.committed(group).values())
    finally:
        admin.delete_topic(out)
    line = lines[-1]
    if written < line["records"] or committed < line["records"]:
        raise ClientFailedError(f"of {line['records']} records {written} are written, {committed} committed")
    return result(loop, line, looks)


def result(loop: Loop, line: dict[str, Any], looks: list[Look]) -> Transform:
    """A run, and what the looks say of its offsets."""
    rate = line["counted"] / line["seconds"]
    lags = [look.lag for look in looks]
    lag = median(lags) if lags else 0.0
    return Transform(
        loop.name,
        loop.title,
        loop.partitions,
        rate,
        1e6 * line["cpu_seconds"] / line["counted"],
        lag,
        1e3 * lag / rate,
        max(lags, default=0),
        max((look.ahead for look in looks), default=0),
        str(line["version"]),
    )


@dataclass(frozen=True)
class Look:
    """Records that are written in the output, and what the group had committed before and after they were asked for."""

    before: int
    written: int
    after: int

    @property
    def lag(self) -> int:
        """Records that are written and not committed; below zero: committed before they are written."""
        return self.written - (self.before + self.after) // 2

    @property
    def ahead(self) -> int:
        """Records that were certainly committed before they were written."""
        return max(0, self.before - self.written)


@contextmanager
def looking(bench: Bench, group: str, out: str, records: int) -> Iterator[list[Look]]:
    """Looks every now and then, on the broker's core, from the first output until everything is done."""
    enough = threading.Event()
    looks: list[Look] = []
    admin = bench.broker.admin

    def watch() -> None:
        with pinned(bench.cores.broker):
            while not enough.wait(LOOK_EVERY):
                before = sum(admin.committed(group).values())
                written = sum(admin.end_offsets(out).values())
                look = Look(before, written, sum(admin.committed(group).values()))
                if before and written and min(before, written) < records:
                    looks.append(look)

    thread = threading.Thread(target=watch, name="bench-looker", daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        enough.set()
        thread.join()
