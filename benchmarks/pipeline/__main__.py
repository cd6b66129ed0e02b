"""python -m benchmarks.pipeline: CPU per record of consume, transform, produce, on embedded brokers.

The CPU is that of the client's whole process, user and system, from its first invoice to its last one: for Java, with
what its compiler takes meanwhile. `no-kafka` is the handler's own work, which each client with msgspec has to do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common import results
from benchmarks.common.table import table
from benchmarks.pipeline import exactly_once
from benchmarks.pipeline.kafka import BROKERS
from benchmarks.pipeline.peers import Client
from benchmarks.pipeline.plot import plot
from benchmarks.pipeline.rounds import Result, Round, measure

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
    "streams": Client("Kafka Streams, Jackson", "PipelineStreams", "at_least_once", peer="streams"),
}
HEAD = ("client", "us CPU per record", "of it user", "elapsed us per record", "records per CPU second")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline", description=__doc__)
    parser.add_argument("--clients", help=f"of {', '.join(CLIENTS)}; all by default")
    parser.add_argument(
        "--exactly-once",
        action="store_true",
        help=f"exactly once beside at least once; clients: {', '.join(exactly_once.CLIENTS)}",
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="interpreter of Grete and the plain loops")
    parser.add_argument("--kafka", choices=("embedded", "apache"), default="embedded", help="brokers to run against")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for the files of results")
    options = parser.parse_args()
    clients = exactly_once.CLIENTS if options.exactly_once else CLIENTS
    options.clients = options.clients.split(",") if options.clients else list(clients)
    if unknown := [name for name in options.clients if name not in clients]:
        parser.error(f"unknown clients {', '.join(unknown)}: choose from {', '.join(clients)}")
    exactly_once.run(options) if options.exactly_once else run(options)


def run(options: argparse.Namespace) -> None:
    """Measures, prints and writes pipeline.json, pipeline.md and pipeline.svg."""
    rounds: dict[str, list[Round]] = {name: [] for name in options.clients}
    for _ in range(options.rounds):
        for name, found in rounds.items():
            found.append(measure(CLIENTS[name], options.records, options.python, options.kafka))
            print(f"{name}: {found[-1]}", file=sys.stderr, flush=True)
    medians = [Result.of(name, CLIENTS[name].title, found) for name, found in rounds.items()]
    facts = results.circumstances() | {"kafka": options.kafka}
    page = markdown(facts, medians, options)
    print(page)
    data = facts | {"records": options.records, "results": [asdict(one) for one in medians]}
    paths = results.write(options.out, "pipeline", data, page, plot(data["results"]))
    print(f"written: {', '.join(map(str, paths))}", file=sys.stderr)


def markdown(facts: Mapping[str, Any], found: Sequence[Result], options: argparse.Namespace) -> str:
    """The whole page."""
    brokers = BROKERS[options.kafka]
    about = (
        f"JSON orders of 80 bytes from one partition become JSON invoices with their keys; {brokers}. "
        f"{options.records:,} records, fewer for the slow clients; medians of {options.rounds} interleaved rounds. The "
        "CPU is that of the client's whole process."
    )
    rows = [
        (one.title, f"{one.cpu:.2f}", f"{one.user:.2f}", f"{one.elapsed:.2f}", f"{1e6 / one.cpu:,.0f}") for one in found
    ]
    return "\n\n".join(["# Consume, transform, produce", results.paragraph(facts), about, table(HEAD, rows)])


if __name__ == "__main__":
    main()
