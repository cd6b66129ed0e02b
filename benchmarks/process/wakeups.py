"""How often does a worker give up the core beyond what its handler does, and how often does an idle process wake?"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.common.build import ROOT, c_program
from benchmarks.common.pinning import pinned
from benchmarks.common.process import usage
from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client
from benchmarks.idle.driver import wait_for_partitions
from tests.kafka.processes import end, spawn

from .catalogue import TOPIC as CROWDED
from .measurement import Bench, Crowd, Idle, Measurement, Wakeups
from .waiting import TOPICS

WORKERS = 4
TOPIC = TOPICS[8]
PER_SECOND = 100
IDLE, IDLE_PARTITIONS = "idle", 20
BACKGROUND = (0, 10, 100)


@dataclass(frozen=True)
class Sleeper:
    """A handler that sleeps so long; `paced`: its records come one by one, so that its worker has slept before."""

    name: str
    title: str
    sleep_ms: int
    topic: str = TOPIC.name
    concurrency: str = "partition"
    paced: bool = False

    def command(self, bench: Bench, topic: str) -> list[str]:
        """The whole command line."""
        settings = {"sleep_ms": str(self.sleep_ms), "workers": str(WORKERS), "concurrency": self.concurrency}
        settings |= bench.windows
        words = [sys.executable, "-m", "benchmarks.process.clients.grete_wakeups"]
        common = [bench.broker.bootstrap, topic, "0", "0"]
        return [*words, *common, *(f"{name}={value}" for name, value in settings.items())]


def _sleepers() -> dict[str, Sleeper]:
    full = [Sleeper(f"sleep-{ms}", f"always more to do, handler sleeps {ms} ms", ms) for ms in (0, 1, 10, 100)]
    by_key = [
        Sleeper(f"key-{ms}", f"the same by key, handler sleeps {ms} ms", ms, TOPICS[1].name, "key") for ms in (0, 1)
    ]
    paced = [
        Sleeper(f"paced-{ms}", f"{PER_SECOND} records/s, handler sleeps {ms} ms", ms, paced=True) for ms in (0, 1, 5)
    ]
    return {sleeper.name: sleeper for sleeper in (*full, *by_key, *paced)}


SLEEPERS = _sleepers()
IDLERS = {"idle": ("20 partitions, a class", {}), "idle-async": ("the same and an async route", {"IDLE_ASYNC": "1"})}


def measure(bench: Bench, found: Measurement) -> None:
    """Sleepers, crowds, idlers."""
    for sleeper in SLEEPERS.values():
        try:
            found.wakeups.append(one(bench, sleeper))
        except ClientFailedError as error:
            found.failed(f"wakeups, {sleeper.name}", error)
            continue
        say(f"  wakeups {sleeper.name}: {found.wakeups[-1].worker:.2f} per job beyond the handler's")
    try:
        found.crowds += crowds(bench)
    except ClientFailedError as error:
        found.failed("wakeups, background", error)
    try:
        found.idle += idle(bench)
    except ClientFailedError as error:
        found.failed("wakeups, idle", error)


def one(bench: Bench, sleeper: Sleeper) -> Wakeups:
    """One process, and a producer beside it when it is paced."""
    with paced(bench, sleeper) if sleeper.paced else nullcontext(sleeper.topic) as topic:
        (line,) = run_client(sleeper.command(bench, topic), bench.cores.client, bench.timeout)
    return wakeups(sleeper, line["samples"])


def wakeups(sleeper: Sleeper, samples: list[dict[str, Any]]) -> Wakeups:
    """Medians over the windows."""
    windows = list(pairwise(samples))

    def per_job(name: str, beyond: str | None = None) -> float:
        shares: list[float] = []
        for before, after in windows:
            switches = after[name] - before[name] - (after[beyond] - before[beyond] if beyond else 0)
            shares.append(switches / max(after["jobs"] - before["jobs"], 1))
        return median(shares)

    if any(after["jobs"] == before["jobs"] for before, after in windows):
        raise ClientFailedError(f"a window without a job: {samples}")
    rate = median((after["jobs"] - before["jobs"]) / (after["at"] - before["at"]) for before, after in windows)
    beyond = (per_job("workers", "handlers"), per_job("process", "handlers"))
    return Wakeups(sleeper.name, sleeper.title, rate, per_job("handlers"), *beyond)


@contextmanager
def paced(bench: Bench, sleeper: Sleeper) -> Iterator[str]:
    """A topic of its own into which one record goes at a time, for as long as it takes."""
    bench.broker.admin.create_topic(sleeper.name, 1, 1, {"retention.ms": -1})
    command = [c_program("rate/producer.c"), bench.broker.bootstrap, sleeper.name, str(PER_SECOND), "600"]
    with pinned(bench.cores.broker):
        producer = spawn([str(word) for word in command], stdout=subprocess.DEVNULL)
    try:
        yield sleeper.name
    finally:
        end(producer)


def crowds(bench: Bench) -> list[Crowd]:
    """One process that goes through all sizes again and again: what differs is only the crowd."""
    repeats, seconds = (3, 0.2) if bench.quick else (7, 0.3)
    settings = {"sizes": ",".join(map(str, BACKGROUND)), "repeats": str(repeats), "seconds": str(seconds)}
    words = [sys.executable, "-m", "benchmarks.process.clients.grete_background", bench.broker.bootstrap]
    command = [*words, CROWDED, "1", "0", *(f"{name}={value}" for name, value in settings.items())]
    (line,) = run_client(command, bench.cores.client, bench.timeout)
    rows = []
    for size in BACKGROUND:
        phases = [phase for phase in line["phases"] if phase["threads"] == size]
        if len(phases) < repeats:
            raise ClientFailedError(f"only {len(phases)} phases with {size} threads: the records have run out")
        by_cpu = median(phase["jobs"] / phase["cpu"] for phase in phases)
        rows.append(Crowd(size, len(phases), by_cpu, median(phase["jobs"] / phase["seconds"] for phase in phases)))
    return rows


def idle(bench: Bench) -> list[Idle]:
    """All idlers at the same time: each uses far too little to disturb the others."""
    settle, windows, seconds = (5.0, 3, 2.0) if bench.quick else (12.0, 3, 6.0)
    for topic in (IDLE, f"{IDLE}-async"):
        bench.broker.admin.create_topic(topic, IDLE_PARTITIONS, 1, None)
    with ExitStack() as stack:
        processes = {}
        for name, (_, more) in IDLERS.items():
            environment = {"IDLE_BOOTSTRAP": bench.broker.bootstrap, "IDLE_TOPIC": IDLE, "IDLE_GROUP": name, **more}
            command = [sys.executable, "-m", "benchmarks.process.clients.grete_idle"]
            with pinned(bench.cores.client):
                process = spawn(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
            stack.callback(end, process)
            processes[name] = process
        for name, (_, more) in IDLERS.items():
            wait_for_partitions(bench.broker, processes[name], name, IDLE_PARTITIONS * (1 + len(more)))
        # What is measured is the length of time itself: these are no waits for a condition.
        time.sleep(settle)
        samples = {name: [usage(process.pid)] for name, process in processes.items()}
        for _ in range(windows):
            time.sleep(seconds)
            for name, process in processes.items():
                samples[name].append(usage(process.pid))
    rows = []
    for name, (title, _) in IDLERS.items():
        parts = [after.since(before) for before, after in pairwise(samples[name])]
        switches = median(part.voluntary_switches for part in parts) / seconds
        cpu = 1e3 * median(part.cpu_seconds for part in parts) / seconds
        rows.append(Idle(name, title, switches, cpu, parts[-1].threads))
        say(f"  wakeups {name}: {switches:.1f}/s")
    return rows
