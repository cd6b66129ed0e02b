"""python -m benchmarks.pipeline: CPU per record of consume, transform, produce, on embedded brokers.

The CPU is that of the client's whole process, user and system, from its first invoice to its last one: for Java, with
what its compiler takes meanwhile.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import grete.client
from benchmarks.pipeline.peers import Client
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
    "confluent-json": Client("confluent-kafka loop, json", "confluent_loop", "json", 0.3),
    "confluent-msgspec": Client("confluent-kafka loop, msgspec", "confluent_loop", "msgspec", 0.3),
    "faststream": Client("FastStream on aiokafka", "faststream_app", "aiokafka", 0.02, peer="faststream"),
    "quix-json": Client("Quix Streams, json", "quix_app", "json", 0.05, peer="quixstreams"),
    "quix-msgspec": Client("Quix Streams, msgspec", "quix_app", "msgspec", 0.05, peer="quixstreams"),
    "java": Client("Java's clients, loop, Jackson", "PipelineLoop", "loop", peer="java"),
    "streams": Client("Kafka Streams, Jackson", "PipelineStreams", "streams", peer="streams"),
}


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Returns the user and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICK, int(fields[12]) / TICK


def measure(client: Client, records: int, python: str) -> tuple[float, float, float]:
    """Runs one client. Returns microseconds per record: user, system, and elapsed."""
    count = max(BATCH, int(records * client.share))
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
    parser.add_argument("--clients", default=",".join(CLIENTS), help=f"of {', '.join(CLIENTS)}")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="interpreter of Grete and the plain loops")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in options.clients.split(",")}
    for _ in range(options.rounds):
        for name, rounds in found.items():
            rounds.append(measure(CLIENTS[name], options.records, options.python))
            user, system, elapsed = rounds[-1]
            print(f"{name}: {user:.2f} us user + {system:.2f} us system, {elapsed:.2f} us elapsed", file=sys.stderr)
    print("| client | us CPU per record | of it user | records per CPU second |\n|---|---|---|---|")
    for name, rounds in found.items():
        user, cpu = median(one[0] for one in rounds), median(one[0] + one[1] for one in rounds)
        print(f"| {CLIENTS[name].title} | {cpu:.2f} | {user:.2f} | {1e6 / cpu:,.0f} |")


if __name__ == "__main__":
    main()
