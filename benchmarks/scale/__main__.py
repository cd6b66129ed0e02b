"""python -m benchmarks.scale: what grows with partitions and with brokers.

The brokers are embedded ones, in a process on a core of their own. Each row is a fresh cluster and fresh clients.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.common import results
from benchmarks.common.build import ROOT
from benchmarks.common.pinning import Cores, pinned
from benchmarks.common.progress import say
from benchmarks.common.table import table
from grete.client import Producer

PARTITIONS = (1, 100, 1_000, 10_000)
BROKERS = (1, 10, 100)
TOPIC = "scale"

BROKER_PROGRAM = """
import sys
from grete.broker import Broker
with Broker(brokers=int(sys.argv[1]), topics={"scale": int(sys.argv[2])}) as broker:
    print(broker.bootstrap_servers.split(",")[0], flush=True)
    sys.stdin.read()
"""

HEAD = (
    "partitions",
    "brokers",
    "idle, CPU ms/s",
    "idle, switches/s",
    "us CPU/record",
    "records/s",
    "first record, ms",
    "memory, bytes/partition",
    "with the allocator's free memory",
    "rebalance, ms",
)


@dataclass(frozen=True)
class Row:
    """Medians of one number of partitions and brokers. `memory`, `memory_with_free`: bytes, see
    `benchmarks.scale.memory`; the second one with the allocator's defaults. `rebalance_seconds`: from the start of the
    second member until both own half; None: not measured."""

    partitions: int
    brokers: int
    idle_cpu_ms: float
    idle_switches: float
    cpu_us_per_record: float
    records_per_second: float
    first_record_seconds: float
    memory: float
    memory_with_free: float
    rebalance_seconds: float | None

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        return (
            f"{self.partitions:,}",
            f"{self.brokers}",
            f"{self.idle_cpu_ms:.2f}",
            f"{self.idle_switches:.1f}",
            f"{self.cpu_us_per_record:.3f}",
            f"{self.records_per_second:,.0f}",
            f"{1e3 * self.first_record_seconds:.0f}",
            f"{self.memory / self.partitions:,.0f}",
            f"{self.memory_with_free / self.partitions:,.0f}",
            "" if self.rebalance_seconds is None else f"{1e3 * self.rebalance_seconds:.0f}",
        )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__)
    parser.add_argument("--partitions", default=",".join(map(str, PARTITIONS)), help="comma separated, at one broker")
    parser.add_argument("--brokers", default=",".join(map(str, BROKERS)), help="comma separated, at 1,000 partitions")
    parser.add_argument("--records", type=int, default=1_000_000, help="of 100 bytes, in all partitions together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=10.0, help="seconds of waiting that are measured")
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for scale.{json,md}")
    return parser.parse_args()


@contextmanager
def brokers(count: int, partitions: int, core: int) -> Iterator[str]:
    """Embedded brokers in a process of their own. Yields an address of one of them."""
    command = (sys.executable, "-c", BROKER_PROGRAM, str(count), str(partitions))
    with pinned(core):
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdin is None or process.stdout is None:
        raise AssertionError
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(30)


def fill(bootstrap: str, partitions: int, records: int) -> int:
    """Writes about that many records, the same number to each partition. Returns the number that was written."""
    each = max(1, records // partitions)
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 50}) as producer:
        for partition in range(partitions):
            producer.produce_many(TOPIC, [b"x" * 100] * each, partition=partition)
        producer.flush(120.0)
    return each * partitions


def consume(bootstrap: str, partitions: int, records: int, idle: float, core: int) -> dict[str, float]:
    """Runs the measured client."""
    arguments = (bootstrap, TOPIC, str(partitions), str(records), str(idle))
    command = (sys.executable, "-m", "benchmarks.scale.client", *arguments)
    with pinned(core):
        found = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    line: dict[str, float] = json.loads(found.stdout)
    return line


def memory(bootstrap: str, partitions: int, core: int, *, trimmed: bool) -> float:
    """Returns the bytes by which a consumer's process grows. `trimmed`: glibc keeps no free memory."""
    environment = os.environ | ({"MALLOC_TRIM_THRESHOLD_": "131072"} if trimmed else {})
    command = (sys.executable, "-m", "benchmarks.scale.memory", bootstrap, TOPIC, str(partitions))
    with pinned(core):
        found = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, timeout=600, check=True
        )
    return float(found.stdout)


class Member:
    """A member of a group, in a process of its own."""

    def __init__(self, bootstrap: str, group: str, core: int) -> None:
        command = (sys.executable, "-m", "benchmarks.scale.member", bootstrap, TOPIC, group)
        with pinned(core):
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )

    def wait_until(self, owned: int) -> float:
        """Returns the time at which it owned so many partitions, in seconds since 1970."""
        if self._process.stdout is None:
            raise AssertionError
        for line in self._process.stdout:
            at, count = line.split()
            if int(count) == owned:
                return float(at)
        raise RuntimeError("the member ended")

    def end(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(60)


def rebalance(bootstrap: str, partitions: int, group: str, core: int) -> float:
    """Returns the seconds from the start of a second member until each of two owns its half."""
    first = Member(bootstrap, group, core)
    first.wait_until(partitions)
    second = Member(bootstrap, group, core)
    second.wait_until(0)
    begin = time.time()
    at = max(first.wait_until(partitions - partitions // 2), second.wait_until(partitions // 2))
    for member in (second, first):
        member.end()
    return at - begin


def measure(partitions: int, count: int, options: argparse.Namespace) -> Row:
    """Measures one row."""
    rounds, rebalances = [], []
    for number in range(options.rounds):
        say(f"{partitions:,} partitions, {count} brokers, round {number + 1}")
        with brokers(count, partitions, options.broker_core) as bootstrap:
            records = fill(bootstrap, partitions, options.records)
            found = consume(bootstrap, partitions, records, options.idle, options.client_core)
            found["memory"] = memory(bootstrap, partitions, options.client_core, trimmed=True)
            found["memory_with_free"] = memory(bootstrap, partitions, options.client_core, trimmed=False)
            rounds.append(found)
            if partitions > 1:
                rebalances.append(rebalance(bootstrap, partitions, f"g{number}", options.client_core))
    middle = {name: median(one[name] for one in rounds) for name in rounds[0]}
    return Row(partitions, count, **middle, rebalance_seconds=median(rebalances) if rebalances else None)


def targets(rows: Sequence[Row]) -> list[tuple[str, str, str, str]]:
    """The targets at one broker, with what was measured."""
    alone = {row.partitions: row for row in rows if row.brokers == 1}
    if not {1, 100, 10_000} <= set(alone):
        return []
    one, hundred, many = alone[1], alone[100], alone[10_000]
    found = [
        ("idle CPU at 10,000 partitions over that at 100", "<=", 3.0, many.idle_cpu_ms / hundred.idle_cpu_ms),
        ("bytes a partition at 10,000", "<=", 1024.0, many.memory / many.partitions),
        ("records/s at 10,000 partitions over that at 1", ">=", 0.7, many.records_per_second / one.records_per_second),
    ]
    verdict = {"<=": lambda value, limit: value <= limit, ">=": lambda value, limit: value >= limit}
    return [
        (what, f"{sign} {limit:g}", f"{value:.2f}", "ok" if verdict[sign](value, limit) else "MISSED")
        for what, sign, limit, value in found
    ]


def growth(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """By how much each doubling of the partitions multiplies a figure, between two rows at one broker."""
    from math import log2

    lines = []
    for before, after in pairwise(row for row in rows if row.brokers == 1):
        doublings = log2(after.partitions / before.partitions)
        ratios = (
            after.idle_cpu_ms / before.idle_cpu_ms,
            after.cpu_us_per_record / before.cpu_us_per_record,
            after.first_record_seconds / before.first_record_seconds,
        )
        steps = f"{before.partitions:,} to {after.partitions:,}"
        lines.append((steps, *(f"{ratio ** (1 / doublings):.2f}" for ratio in ratios)))
    return lines


def main() -> int:
    """Exit status 1 if a target was missed."""
    options = parse()
    cores = Cores(options.broker_core, options.client_core)
    cores.check()
    sizes = [(int(partitions), 1) for partitions in options.partitions.split(",")]
    sizes += [(1_000, int(count)) for count in options.brokers.split(",") if int(count) > 1]
    rows = [measure(partitions, count, options) for partitions, count in sizes]
    judged = targets(rows)
    about = (
        f"Embedded brokers in one process on core {cores.broker}, one consumer on core {cores.client}, which is "
        f"assigned all partitions of a topic and reads {options.records:,} records of 100 bytes, then waits "
        f"{options.idle:g} s at the end of all partitions. Memory is the growth of the resident set from one assigned "
        f"partition to all, before records are fetched, with MALLOC_TRIM_THRESHOLD_=131072 and with glibc's "
        f"defaults, which keep free memory. Rebalance: from the first poll of a second member until each "
        f"of two owns its half; a member learns of a rebalance with its next heartbeat, within 3 s. Medians of "
        f"{options.rounds} rounds."
    )
    parts = ["# Scale", about, table(HEAD, [row.cells() for row in rows])]
    if lines := growth(rows):
        parts += [
            "## Growth with each doubling of the partitions",
            table(("partitions", "idle CPU", "CPU per record", "time to the first record"), lines),
        ]
    if judged:
        parts += ["## Targets", table(("target", "wanted", "measured", "verdict"), judged)]
    page = "\n\n".join(parts)
    print(page)
    results.write(options.out, "scale", {"results": [asdict(row) for row in rows]}, page)
    return int(any(row[-1] == "MISSED" for row in judged))


if __name__ == "__main__":
    raise SystemExit(main())
