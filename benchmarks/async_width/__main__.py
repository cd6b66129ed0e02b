"""python -m benchmarks.async_width --records 10000 --wait 0.2 --rounds 5"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import results
from benchmarks.common.pinning import Cores, pinned
from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client
from benchmarks.common.table import number, table
from tests.kafka import choose, fill, new_cluster

TOPIC = "waiting"
# The target of both ways of Grete, for 10,000 records that wait 200 ms each.
TARGET = 1.5


@dataclass(frozen=True)
class Client:
    """One process to run."""

    name: str
    title: str
    module: str
    settings: tuple[str, ...] = ()

    def command(self, bootstrap: str, options: argparse.Namespace) -> list[str]:
        """The whole command line."""
        words = [sys.executable, "-m", f"benchmarks.async_width.clients.{self.module}", bootstrap, TOPIC, "1"]
        return [*words, str(options.records), f"wait={options.wait}", *self.settings]


_clients = (
    Client("grete-unordered", 'Grete, "unordered", defaults', "grete_app", ("concurrency=unordered",)),
    Client("grete-key", 'Grete, "key", every record has its own, defaults', "grete_app", ("concurrency=key",)),
    Client("aiokafka", "aiokafka, asyncio.gather over getmany", "aio"),
)
CLIENTS = {client.name: client for client in _clients}


@dataclass(frozen=True)
class Result:
    """Medians over the rounds; CPU in microseconds for each record."""

    client: str
    title: str
    seconds: float
    user: float
    system: float
    at_once: int
    peak_mb: float
    version: str


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.async_width", description=__doc__)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="comma separated (default: all)")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--wait", type=float, default=0.2, help="seconds that each record waits")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kafka", default="embedded", choices=("embedded", "apache"))
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds per process")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for async_width.{json,md}")
    options = parser.parse_args()
    unknown = set(options.clients.split(",")) - set(CLIENTS)
    if unknown:
        parser.error(f"unknown client {min(unknown)}: choose from {', '.join(CLIENTS)}")
    return options


def measure(bootstrap: str, cores: Cores, options: argparse.Namespace) -> tuple[list[Result], list[str]]:
    """All rounds over all clients, and what has failed."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in options.clients.split(",")}
    failures: list[str] = []
    for round_number in range(1, options.rounds + 1):
        for name, lines in found.items():
            command = CLIENTS[name].command(bootstrap, options)
            try:
                (line,) = run_client(command, cores.client, options.timeout)
            except ClientFailedError as error:
                failures.append(f"{name}: {error}")
                continue
            lines.append(line)
            say(f"  {round_number} {name}: {line['seconds']:.3f} s, {line['at_once']:,} at once")
    return [_result(CLIENTS[name], lines) for name, lines in found.items() if lines], failures


def _result(client: Client, lines: Sequence[Mapping[str, Any]]) -> Result:
    def typical(name: str) -> float:
        return float(median(line[name] for line in lines))

    def for_each(name: str) -> float:
        return 1e6 * float(median(line[name] / line["records"] for line in lines))

    at_once, peak = int(typical("at_once")), typical("peak_rss") / 1e6
    version = lines[0]["version"]
    cpu = for_each("user"), for_each("system")
    return Result(client.name, client.title, typical("seconds"), *cpu, at_once, peak, version)


def missed(found: Sequence[Result], options: argparse.Namespace) -> list[str]:
    """The targets that were missed. They are for the default number of records and wait."""
    if (options.records, options.wait) != (10_000, 0.2):
        return []
    slow = [result for result in found if result.client.startswith("grete") and result.seconds >= TARGET]
    return [f"{result.title}: {result.seconds:.2f} s, not below {TARGET:g} s" for result in slow]


HEAD = ("client", "seconds", "at once", "user us/record", "system us/record", "peak RSS MB")


def markdown(facts: Mapping[str, Any], found: Sequence[Result], options: argparse.Namespace) -> str:
    """The whole page."""
    about = (
        f"One partition of {options.records:,} records of 100 bytes with a key each. Each handler awaits "
        f"`asyncio.sleep({options.wait:g})`. Time is from the start of the first handler to the end of the last one; "
        "CPU also contains connecting and the first fetch. Handlers of Grete are bounded by `max_in_flight` (4,096), "
        f"aiokafka's by nothing. Medians of {options.rounds} interleaved rounds, broker: {facts['kafka']}."
    )
    lines = [
        (
            result.title,
            f"{result.seconds:.3f}",
            f"{result.at_once:,}",
            number(result.user),
            number(result.system),
            number(result.peak_mb),
        )
        for result in found
    ]
    versions = "\n".join(f"- **{result.title}**: {result.version}" for result in found)
    parts = ["# Width of async handlers", results.paragraph(facts), about, table(HEAD, lines), versions]
    return "\n\n".join([*parts, *missed(found, options)])


def main() -> int:
    """Exit status 1 if a client failed or a target was missed."""
    options = parse()
    cores = Cores(options.broker_core, options.client_core)
    cores.check()
    choose(options.kafka)
    with ExitStack() as stack:
        with pinned(cores.broker):
            kafka = stack.enter_context(new_cluster())
        kafka.create_topic(TOPIC, 1)
        fill(kafka.bootstrap_servers, TOPIC, options.records, key=lambda index: b"key-%d" % index)
        found, failures = measure(kafka.bootstrap_servers, cores, options)
    facts = {**results.circumstances(), "kafka": options.kafka, "cores": asdict(cores)}
    page = markdown(facts, found, options)
    print(page)
    data = {**facts, "records": options.records, "wait": options.wait, "results": [asdict(one) for one in found]}
    say(f"written: {', '.join(map(str, results.write(options.out, 'async_width', data, page)))}")
    for failure in failures:
        say(failure)
    return int(bool(failures) or bool(missed(found, options)))


if __name__ == "__main__":
    raise SystemExit(main())
