"""Runs every client in turn, round after round, each into a topic of its own: a slow phase of the machine hits all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.common.broker import Broker
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client

from .catalogue import SYNC, Client, Shape
from .rows import SyncRun, ThroughputRun, Waited

# Sends by the floor before anything is measured: the broker's JIT has to have seen its own way of writing.
BROKER_WARM_UP = 100_000
# The records are never read: they may be deleted soon after the topic.
TOPIC = {"retention.ms": -1, "file.delete.delay.ms": 1000}


@dataclass
class Measurement:
    """Everything that one call of the benchmark found out."""

    sync: list[SyncRun] = field(default_factory=list)
    throughput: list[ThroughputRun] = field(default_factory=list)
    waited: list[Waited] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass
class Driver:
    """One broker, and what was found with it."""

    broker: Broker
    cores: Cores
    timeout: float
    found: Measurement = field(default_factory=Measurement)
    _topics: int = 0
    _failed: set[tuple[str, str]] = field(default_factory=set)

    def warm_up_broker(self) -> None:
        """Before the first round, because the first client would be the slowest otherwise."""
        say(f"warming the broker up with {BROKER_WARM_UP:,} sends")
        for _ in self._passes("warm-up", SYNC["floor"], 1, BROKER_WARM_UP):
            pass

    def measure_sync(self, clients: Sequence[Client], rounds: int, records: int) -> None:
        """One record after the other into one partition."""
        for number in range(1, rounds + 1):
            for client in rotated(clients, number):
                if number > (client.rounds or rounds):
                    continue
                for row, title, line in self._guarded("sync", client, 1, records):
                    run = SyncRun.read(row, title, line)
                    self.found.sync.append(run)
                    say(f"  round {number}/{rounds} sync {row}: p50 {run.p50_us:.0f} us")

    def measure_throughput(self, shape: Shape, clients: Sequence[Client], number: int, of: int, records: int) -> None:
        """One round, as fast as it goes."""
        for client in rotated(clients, number):
            for row, title, line in self._guarded(shape.name, client, shape.partitions, records):
                run = ThroughputRun.read(shape.name, row, title, line)
                self.found.throughput.append(run)
                say(f"  round {number}/{of} {shape.name} {row}: {run.counted / run.seconds / 1e3:,.0f} k records/s")

    def _guarded(
        self, part: str, client: Client, partitions: int, records: int
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """A client that failed once is left out of the rest of that part."""
        if (part, client.name) in self._failed:
            return
        try:
            yield from self._passes(part, client, partitions, records)
        except ClientFailedError as error:
            self._failed.add((part, client.name))
            self.found.failures.append(f"{client.name}, {part}: {error}")
            say(f"  FAILED {self.found.failures[-1]}")

    def _passes(
        self, part: str, client: Client, partitions: int, records: int
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """One process; (row, title, line) of each pass that the table shows."""
        with self.topic(f"{part}-{client.name}", partitions) as topic:
            command = client.command(self.broker, topic, partitions, records)
            lines = run_client(command, self.cores.client, self.timeout)
            check(lines, sum(self.broker.admin.end_offsets(topic).values()))
        missing = set(client.rows) - {line["pass"] for line in lines}
        if missing:
            raise ClientFailedError(f"no line for {', '.join(sorted(missing))}")
        for line in lines:
            if line["pass"] in client.rows:
                row = client.name if len(client.rows) == 1 else f"{client.name}/{line['pass']}"
                yield row, client.rows[line["pass"]], line

    @contextmanager
    def topic(self, name: str, partitions: int) -> Iterator[str]:
        """A fresh topic, deleted afterwards: the disk need not hold what all rounds write."""
        self._topics += 1
        topic = f"{name}-{self._topics}"
        self.broker.admin.create_topic(topic, partitions, 1, TOPIC)
        try:
            yield topic
        finally:
            self.broker.admin.delete_topic(topic)


def rotated(clients: Sequence[Client], number: int) -> Sequence[Client]:
    """Each round begins with another client: a later one meets a broker that is warmer."""
    start = (number - 1) % len(clients) if clients else 0
    return [*clients[start:], *clients[:start]]


def check(lines: Sequence[dict[str, Any]], end: int) -> None:
    """A fast client that loses records, or writes them twice, is not fast."""
    sent = sum(line["sent"] for line in lines)
    if end != sent:
        raise ClientFailedError(f"sent {sent:,} records, and the partitions hold {end:,}")
