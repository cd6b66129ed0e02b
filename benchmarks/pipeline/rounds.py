"""One round of one client: CPU and time from its first invoice to its last."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.pipeline.kafka import Kafka, new_kafka
from benchmarks.pipeline.peers import Client
from benchmarks.pipeline.records import BATCH

TICK = os.sysconf("SC_CLK_TCK")
# Seconds in which a client that does not finish is given up.
TIMEOUT = 300.0


@dataclass(frozen=True)
class Round:
    """Microseconds per record: user and system CPU of the client's process, and elapsed."""

    user: float
    system: float
    elapsed: float

    @property
    def cpu(self) -> float:
        return self.user + self.system

    def __str__(self) -> str:
        return f"{self.user:.2f} us user + {self.system:.2f} us system, {self.elapsed:.2f} us elapsed"


@dataclass(frozen=True)
class Result:
    """Medians over the rounds, in microseconds per record."""

    client: str
    title: str
    cpu: float
    user: float
    elapsed: float

    @classmethod
    def of(cls, name: str, title: str, rounds: Sequence[Round]) -> Result:
        """Medians, each of its own: CPU and time need not come from the same round."""
        cpu = median(one.cpu for one in rounds)
        return cls(name, title, cpu, median(one.user for one in rounds), median(one.elapsed for one in rounds))


def measure(client: Client, records: int, python: str, kind: str = "embedded") -> Round:
    """Runs one client on brokers of its own."""
    count = max(BATCH, int(records * client.share) // BATCH * BATCH)
    if not client.style:
        return _measure_alone(client, count, python)
    with new_kafka(kind) as kafka:
        kafka.fill(count)
        # Markers of transactions have offsets in the output, too: what is committed is seen in the group.
        progress = kafka.committed if client.transactions else kafka.written
        with running(client, kafka, python) as child:
            first, start, at = _wait_for(progress, child, 1)
            last, end, till = _wait_for(progress, child, count)
    done = last - first
    if done <= 0:
        raise SystemExit(f"{client.title}: all {count:,} records were done at once: give it more with --records")
    return Round((end[0] - start[0]) / done * 1e6, (end[1] - start[1]) / done * 1e6, (till - at) / done * 1e6)


@contextmanager
def running(client: Client, kafka: Kafka, python: str) -> Iterator[subprocess.Popen[bytes]]:
    """The client as a process, which is killed in the end."""
    child = subprocess.Popen(client.command(kafka.bootstrap, python), env=client.environment())
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def _measure_alone(client: Client, count: int, python: str) -> Round:
    """Runs a client that needs no broker, and prints its user and system seconds."""
    command = [python, "-m", f"benchmarks.pipeline.clients.{client.module}", str(count)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout.split()
    user, system = (float(word) / count * 1e6 for word in said)
    return Round(user, system, user + system)


def _cpu_seconds(pid: int) -> tuple[float, float]:
    """Returns the user and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICK, int(fields[12]) / TICK


def _wait_for(
    progress: Callable[[], int], child: subprocess.Popen[bytes], count: int
) -> tuple[int, tuple[float, float], float]:
    """Waits until so many records are done. Returns their number, the CPU of the client so far, and the time."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        done = progress()
        if done >= count:
            return done, _cpu_seconds(child.pid), time.monotonic()
        if child.poll() is not None:
            raise SystemExit(f"the client ended after {done} records, with status {child.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"only {done} of {count} records after {TIMEOUT:.0f} s")
        time.sleep(0.01)  # far below the duration of a round
