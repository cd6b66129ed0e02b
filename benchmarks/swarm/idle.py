"""A swarm that waits beside one process that waits: who wakes how often, and what does it cost?"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack
from statistics import mean

from benchmarks.common.process import ThreadUsage, by_thread
from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError

from .fleet import Plan, fleet
from .measurement import Bench, Idle, Measurement

TOPIC, PARTITIONS = "idle", 20
NODES = 4
TITLES = {
    "supervisor": f"supervisor of {NODES} nodes",
    "node": f"a node of {NODES} (mean)",
    "one": "grete run",
}


def measure(bench: Bench, found: Measurement, seconds: float) -> None:
    """Both at the same time: each uses far too little to disturb the other."""
    bench.broker.admin.create_topic(TOPIC, PARTITIONS, 1, None)
    try:
        with ExitStack() as stack:
            swarm = stack.enter_context(
                fleet(bench.broker.bootstrap, Plan("idle", TOPIC, PARTITIONS, "idle-swarm", NODES))
            )
            alone = stack.enter_context(fleet(bench.broker.bootstrap, Plan("idle", TOPIC, PARTITIONS, "idle-one")))
            for running in (swarm, alone):
                running.until_shared()
            # What is measured is the length of time itself: these are no waits for a condition.
            time.sleep(bench.pick(12.0, 4.0))
            pids = [*swarm.pids, *alone.pids]
            at, before = time.perf_counter(), [by_thread(pid) for pid in pids]
            time.sleep(seconds)
            after, passed = [by_thread(pid) for pid in pids], time.perf_counter() - at
            for running in (swarm, alone):
                running.check()
    except ClientFailedError as error:
        found.failed("idle", error)
        return
    threads = [spent(first, last, passed) for first, last in zip(before, after, strict=True)]
    groups = {"supervisor": threads[:1], "node": threads[1:-1], "one": threads[-1:]}
    for name, title in TITLES.items():
        found.idle.append(_row(name, title, groups[name]))
        say(f"  idle {name}: {found.idle[-1].wakeups_per_second:.2f} wake-ups/s")


Threads = list[tuple[str, float, float]]
"""For each thread: name, wake-ups per second, microseconds of CPU per second."""


def spent(before: dict[int, ThreadUsage], after: dict[int, ThreadUsage], seconds: float) -> Threads:
    """By the threads that lived all the time."""
    if before.keys() != after.keys():
        raise ClientFailedError("threads came or went while nothing was to be done")
    return [
        (
            now.name,
            (now.voluntary_switches - before[thread].voluntary_switches) / seconds,
            1e6 * (now.cpu_seconds - before[thread].cpu_seconds) / seconds,
        )
        for thread, now in after.items()
    ]


def _row(name: str, title: str, processes: list[Threads]) -> Idle:
    """The mean of these processes. Threads of one name count together."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for thread, wakeups, cpu in (thread for process in processes for thread in process):
        sums[thread][0] += wakeups / len(processes)
        sums[thread][1] += cpu / len(processes)
    return Idle(
        name,
        title,
        sum(wakeups for wakeups, _ in sums.values()),
        sum(cpu for _, cpu in sums.values()) / 1e3,
        round(mean(len(process) for process in processes)),
        {thread: (wakeups, cpu) for thread, (wakeups, cpu) in sums.items() if wakeups > 0.01},
    )
