"""python -m benchmarks.pipeline: CPU per record of consume, transform, produce, on embedded brokers.

The CPU is that of the client's whole process, user and system, from its first invoice to its last one: for Java, with
what its compiler takes meanwhile. `no-kafka` is the handler's own work, which each client with msgspec has to do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import grete.client
from benchmarks.common import results
from benchmarks.common.table import table
from benchmarks.pipeline.peers import Client
from benchmarks.pipeline.plot import plot
from benchmarks.pipeline.records import BATCH, INVOICES, ORDERS, order_values
from grete.broker import Broker

TICK = os.sysconf("SC_CLK_TCK")
# Seconds in which a client that does not finish is given up.
TIMEOUT = 300.0


CLIENTS = {
    "function": Client("Grete, function with publish=", "grete_app", "function"),
    "key": Client("Grete, function with publish= and the decoded key", "grete_app", "key"),
    "batch": Client("Grete, batch with publish=", "grete_app", "batch"),
    "class": Client("Grete, class, produce_many with keys", "grete_app", "class"),
    "async": Client("Grete, async function with publish=", "grete_app", "async", 0.3),
    "forward": Client("Grete, records unchanged", "grete_app", "forward"),
    "no-kafka": Client("no Kafka: decode, compute, encode with msgspec", "no_kafka", ""),
    "confluent-json": Client("confluent-kafka loop, json", "confluent_loop", "json", 0.3),
    "confluent-msgspec": Client("confluent-kafka loop, msgspec", "confluent_loop", "msgspec", 0.3),
    "faststream": Client("FastStream on aiokafka", "faststream_app", "aiokafka", 0.02, peer="faststream"),
    "quix-json": Client("Quix Streams, json", "quix_app", "json", 0.05, peer="quixstreams"),
    "quix-msgspec": Client("Quix Streams, msgspec", "quix_app", "msgspec", 0.05, peer="quixstreams"),
    "java": Client("Java's clients, loop, Jackson", "PipelineLoop", "loop", peer="java"),
    "streams": Client("Kafka Streams, Jackson", "PipelineStreams", "streams", peer="streams"),
}
# With `--exactly-once`: beside the same programs at least once.
EXACTLY_ONCE = {
    "function": CLIENTS["function"],
    "function-eos": Client("Grete exactly once, function with publish=", "grete_app", "function+eos"),
    "class": CLIENTS["class"],
    "class-eos": Client("Grete exactly once, class, produce_many with keys", "grete_app", "class+eos"),
    "async": CLIENTS["async"],
    "async-eos": Client("Grete exactly once, async function with publish=", "grete_app", "async+eos", 0.3),
    "confluent-eos": Client("confluent-kafka transactions of 10,000, msgspec", "confluent_transactions", "10000", 0.3),
    "confluent-eos-100": Client("confluent-kafka transactions of 100, msgspec", "confluent_transactions", "100", 0.1),
    "streams-eos": Client("Kafka Streams exactly once, Jackson", "PipelineStreams", "exactly_once_v2", peer="streams"),
}
HEAD = ("client", "us CPU per record", "of it user", "elapsed us per record", "records per CPU second")


@dataclass(frozen=True)
class Result:
    """Medians over the rounds, in microseconds per record."""

    client: str
    title: str
    cpu: float
    user: float
    elapsed: float


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Returns the user and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICK, int(fields[12]) / TICK


def measure_alone(client: Client, count: int, python: str) -> tuple[float, float, float]:
    """Runs a client that needs no broker, and prints its user and system seconds."""
    command = [python, "-m", f"benchmarks.pipeline.clients.{client.module}", str(count)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout.split()
    user, system = (float(word) / count * 1e6 for word in said)
    return user, system, user + system


def measure(client: Client, records: int, python: str) -> tuple[float, float, float]:
    """Runs one client. Returns microseconds per record: user, system, and elapsed."""
    count = max(BATCH, int(records * client.share))
    if not client.style:
        return measure_alone(client, count, python)
    with Broker(topics={ORDERS: 1, INVOICES: 1}, memory="4GiB") as broker:
        with grete.client.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            for first in range(0, count, BATCH):
                values, keys = order_values(first, BATCH)
                producer.produce_many(ORDERS, values, keys=keys)
        child = subprocess.Popen(client.command(broker.bootstrap_servers, python), env=client.environment())
        try:
            first, start, at = wait_for(broker, child, 1)
            last, end, till = wait_for(broker, child, count)
        finally:
            child.kill()
            child.wait()
    done = last - first
    return (end[0] - start[0]) / done * 1e6, (end[1] - start[1]) / done * 1e6, (till - at) / done * 1e6


def wait_for(broker: Broker, child: subprocess.Popen[bytes], count: int) -> tuple[int, tuple[float, float], float]:
    """Waits until so many invoices are written. Returns their number, the CPU of the client so far, and the time."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        written = sum(end for _, end in broker.offsets(INVOICES))
        if written >= count:
            return written, cpu_seconds(child.pid), time.monotonic()
        if child.poll() is not None:
            raise SystemExit(f"the client ended after {written} invoices, with status {child.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"only {written} of {count} invoices after {TIMEOUT:.0f} s")
        time.sleep(0.01)  # far below the duration of a round


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline", description=__doc__)
    parser.add_argument("--clients", help=f"of {', '.join(CLIENTS)}; all by default")
    parser.add_argument(
        "--exactly-once", action="store_true", help=f"exactly once beside at least once: {', '.join(EXACTLY_ONCE)}"
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="interpreter of Grete and the plain loops")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for pipeline.{json,md,svg}")
    options = parser.parse_args()
    clients = EXACTLY_ONCE if options.exactly_once else CLIENTS
    chosen = options.clients.split(",") if options.clients else list(clients)
    rounds: dict[str, list[tuple[float, float, float]]] = {name: [] for name in chosen}
    for _ in range(options.rounds):
        for name, found in rounds.items():
            found.append(measure(clients[name], options.records, options.python))
            user, system, elapsed = found[-1]
            print(f"{name}: {user:.2f} us user + {system:.2f} us system, {elapsed:.2f} us elapsed", file=sys.stderr)
    medians = [_result(name, clients[name].title, found) for name, found in rounds.items()]
    facts = results.circumstances() | {"kafka": "embedded"}
    page = markdown(facts, medians, options)
    print(page)
    data = facts | {"records": options.records, "results": [asdict(one) for one in medians]}
    name = "exactly-once" if options.exactly_once else "pipeline"
    paths = results.write(options.out, name, data, page, plot(data["results"]))
    print(f"written: {', '.join(map(str, paths))}", file=sys.stderr)


def _result(name: str, title: str, rounds: Sequence[tuple[float, float, float]]) -> Result:
    cpu = median(user + system for user, system, _ in rounds)
    return Result(name, title, cpu, median(one[0] for one in rounds), median(one[2] for one in rounds))


def markdown(facts: Mapping[str, Any], found: Sequence[Result], options: argparse.Namespace) -> str:
    """The whole page."""
    about = (
        f"JSON orders of 80 bytes from one partition become JSON invoices with their keys; the embedded broker runs in "
        f"another process. {options.records:,} records, fewer for the slow clients; medians of {options.rounds} "
        "interleaved rounds. The CPU is that of the client's whole process."
    )
    if options.exactly_once:
        about += " Exactly once: transactions with the offsets, every 100 ms in Grete and in Kafka Streams."

    rows = [
        (one.title, f"{one.cpu:.2f}", f"{one.user:.2f}", f"{one.elapsed:.2f}", f"{1e6 / one.cpu:,.0f}") for one in found
    ]
    return "\n\n".join(["# Consume, transform, produce", results.paragraph(facts), about, table(HEAD, rows)])


if __name__ == "__main__":
    main()
