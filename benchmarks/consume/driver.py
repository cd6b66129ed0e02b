"""Fills the topics, then runs every client in turn, round after round: a slow phase of the machine hits all alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.common.broker import Broker
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client

from .catalogue import Client
from .rows import Run
from .topics import Filled, Topic, fill


@dataclass
class Measurement:
    """Everything that one call of the benchmark found out."""

    topics: list[Filled] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def records_of(topic: Topic, scale: float, at_most: int | None) -> int:
    """How many records this run puts into a topic."""
    wanted = int(topic.records * scale)
    return max(1000, wanted if at_most is None else min(wanted, at_most))


def measure(
    broker: Broker,
    cores: Cores,
    topics: Sequence[Topic],
    clients: Sequence[Client],
    rounds: int,
    scale: float,
    at_most: int | None,
    timeout: float,
) -> Measurement:
    """The whole benchmark. A client that failed once is left out of later rounds on that topic."""
    found = Measurement()
    for topic in topics:
        say(f"filling {topic.name} with {records_of(topic, scale, at_most):,} records")
        found.topics.append(fill(broker, cores, topic, records_of(topic, scale, at_most)))
    failed: set[tuple[str, str]] = set()
    for number in range(1, rounds + 1):
        for filled in found.topics:
            for client in clients:
                key = (filled.topic.name, client.name)
                if key in failed or filled.topic.name not in client.topics or (broker.tls and not client.over_tls):
                    continue
                try:
                    found.runs += one(broker, cores, client, filled, timeout, f"round {number}/{rounds}")
                except ClientFailedError as error:
                    failed.add(key)
                    found.failures.append(f"{client.name} on {filled.topic.name}: {error}")
                    say(f"  FAILED {found.failures[-1]}")
    return found


def one(broker: Broker, cores: Cores, client: Client, filled: Filled, timeout: float, where: str) -> list[Run]:
    """One process; the passes that the table shows."""
    words, environment = client.command(broker, filled), client.environment(broker.bootstrap, filled)
    lines = run_client(words, cores.client, timeout, environment)
    runs = []
    for line in lines:
        if line["pass"] not in client.rows:
            continue
        check(client, filled, line)
        name = client.name if len(client.rows) == 1 else f"{client.name}/{line['pass']}"
        runs.append(Run.read(filled.topic.name, name, client.rows[line["pass"]], line))
        rate = runs[-1].counted / runs[-1].seconds / 1e3
        say(f"  {where} {filled.topic.name} {name}: {rate:,.0f} k records/s")
    missing = set(client.rows) - {line["pass"] for line in lines}
    if missing:
        raise ClientFailedError(f"no line for {', '.join(sorted(missing))}")
    return runs


def check(client: Client, filled: Filled, line: dict[str, object]) -> None:
    """A fast client that skips records is not fast: all must have seen the same bytes."""
    whole = client.records(filled) == filled.records
    if whole and (line["records"] != filled.records or line["bytes"] not in (filled.bytes, None)):
        raise ClientFailedError(
            f"read {line['records']} records of {line['bytes']} bytes, not {filled.records} of {filled.bytes}"
        )
    if not line["counted"]:
        raise ClientFailedError("the first batch held every record: use more of them")


def named(names: Iterable[str], known: dict[str, Client] | dict[str, Topic], what: str) -> list[str]:
    """Refuses a name that does not exist, with those that do."""
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise SystemExit(f"unknown {what} {name}: choose from {', '.join(known)}")
    return wanted
