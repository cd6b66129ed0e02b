"""Exactly once: Grete beside its own at least once, other transactional loops, Quix Streams and Kafka Streams."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.common import results
from benchmarks.common.table import table
from benchmarks.common.target_results import TargetResult, target_table
from benchmarks.pipeline.kafka import BROKERS, new_kafka
from benchmarks.pipeline.peers import Client
from benchmarks.pipeline.rounds import Result, Round, measure, running

# Time between commits in Grete, Quix Streams and Kafka Streams, in milliseconds.
INTERVAL = 100
PER_SECOND = 1000
# Seconds of the paced load, from the first invoice on.
WARM_UP, WINDOW = 2.0, 5.0

CLIENTS = {
    "function": Client("Grete at least once, function with publish=", "grete_app", "function", 2.0),
    "function-eos": Client(
        "Grete exactly once, function with publish=", "grete_app", "function+eos", 2.0, transactions=True
    ),
    "class": Client("Grete at least once, class, produce_many with keys", "grete_app", "class", 2.0),
    "class-eos": Client(
        "Grete exactly once, class, produce_many with keys", "grete_app", "class+eos", 2.0, transactions=True
    ),
    "async": Client("Grete at least once, async function with publish=", "grete_app", "async"),
    "async-eos": Client(
        "Grete exactly once, async function with publish=", "grete_app", "async+eos", transactions=True
    ),
    "confluent": Client(
        "confluent-kafka, transactions of 10,000, msgspec", "confluent_transactions", "10000", 0.5, transactions=True
    ),
    "confluent-100": Client(
        "confluent-kafka, transactions of 100, msgspec", "confluent_transactions", "100", 0.1, transactions=True
    ),
    "quix": Client(
        "Quix Streams exactly once, msgspec", "quix_app", "msgspec+eos", 0.1, peer="quixstreams", transactions=True
    ),
    "java": Client(
        "Java's clients, a transaction for each poll, Jackson", "PipelineLoop", "transactions", peer="java",
        transactions=True,
    ),
    "streams": Client(
        "Kafka Streams exactly_once_v2, Jackson", "PipelineStreams", "exactly_once_v2", peer="streams",
        transactions=True,
    ),
}  # fmt: skip
PYTHON_PEERS = ("confluent", "confluent-100", "quix")
# The paced load: latency is that of the transactions, so one way to write a handler is enough.
PACED = ("function", "function-eos", "confluent", "confluent-100", "quix", "java", "streams")
HEAD = (
    "client",
    "records/s",
    "records per CPU second",
    "us CPU per record",
    "of it user",
    "paced: p50 ms",
    "p99 ms",
)


@dataclass(frozen=True)
class Latency:
    """Milliseconds from an order to its invoice, as a reader with read_committed sees it."""

    p50: float
    p99: float
    records: int


def pace(client: Client, python: str, kind: str) -> Latency:
    """Runs one client under a steady load."""
    with new_kafka(kind) as kafka, running(client, kafka, python):
        words = [kafka.bootstrap, PER_SECOND, WARM_UP, WINDOW]
        command = [sys.executable, "-m", "benchmarks.pipeline.paced", *map(str, words)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=180).stdout
    return Latency(**json.loads(said))


def run(options: Namespace) -> None:
    """Measures, prints and writes exactly_once.md and exactly_once.json."""
    rounds: dict[str, list[Round]] = {name: [] for name in options.clients}
    for _ in range(options.rounds):
        for name, found in rounds.items():
            found.append(measure(CLIENTS[name], options.records, options.python, options.kafka))
            print(f"{name}: {found[-1]}", file=sys.stderr, flush=True)
    paced = {}
    for name in PACED:
        if name in rounds:
            paced[name] = pace(CLIENTS[name], options.python, options.kafka)
            print(f"{name}: {paced[name]}", file=sys.stderr, flush=True)
    medians = [Result.of(name, CLIENTS[name].title, found) for name, found in rounds.items()]
    facts = results.circumstances() | {"kafka": options.kafka}
    page = markdown(facts, medians, paced, targets(rounds, paced), options)
    print(page)
    data = facts | {"records": options.records, "rounds": options.rounds, "results": [asdict(one) for one in medians]}
    data["paced"] = {name: asdict(one) for name, one in paced.items()}
    paths = results.write(options.out, "exactly_once", data, page)
    print(f"written: {', '.join(map(str, paths))}", file=sys.stderr)


def targets(rounds: Mapping[str, Sequence[Round]], paced: Mapping[str, Latency]) -> list[TargetResult]:
    """Ratios are medians over the rounds: those of one round were measured beside each other."""

    def ratio(other: str, name: str, what: str) -> float | None:
        pairs = list(zip(rounds.get(other, ()), rounds.get(name, ()), strict=False))
        return median(getattr(one, what) / getattr(two, what) for one, two in pairs) if pairs else None

    found = []
    for name in ("function", "class", "async"):
        pair = f"{name}, exactly once over at least once"
        found.append(TargetResult(f"{pair}: records/s", ">=", 0.85, ratio(name, f"{name}-eos", "elapsed")))
        found.append(TargetResult(f"{pair}: records per CPU second", ">=", 0.85, ratio(name, f"{name}-eos", "cpu")))
    peers = [ratio(peer, "function-eos", "cpu") for peer in PYTHON_PEERS]
    best = min((one for one in peers if one is not None), default=None)
    found.append(TargetResult("function over the best Python peer: records per CPU second", ">=", 3, best))
    for peer in ("java", "streams"):
        title = f"function over {CLIENTS[peer].title.partition(',')[0]}"
        found.append(TargetResult(f"{title}: records/s", ">=", 1, ratio(peer, "function-eos", "elapsed")))
        found.append(TargetResult(f"{title}: records per CPU second", ">=", 1, ratio(peer, "function-eos", "cpu")))
    p50 = paced["function-eos"].p50 if "function-eos" in paced else None
    found.append(TargetResult(f"paced, transactions every {INTERVAL} ms: p50 in ms", "<=", INTERVAL + 10, p50))
    return found


def markdown(
    facts: Mapping[str, Any],
    found: Sequence[Result],
    paced: Mapping[str, Latency],
    checked: Sequence[TargetResult],
    options: Namespace,
) -> str:
    """The whole page."""
    about = (
        f"JSON orders of 80 bytes from one partition become JSON invoices with their keys; {BROKERS[options.kafka]}. "
        f"{options.records:,} records, more for Grete and fewer for the slow clients; medians of {options.rounds} "
        "interleaved rounds. The CPU is that of the client's whole process, for Java with its compiler. "
        f"Grete, Quix Streams and Kafka Streams end a transaction every {INTERVAL} ms."
    )
    paced_about = (
        f"Paced: {PER_SECOND:,} orders a second, one {WINDOW:g}-second window after {WARM_UP:g} s. The time goes from "
        "`produce` of an order to a reader of its invoice with `read_committed`."
    )
    rows = []
    for one in found:
        latency = paced.get(one.client)
        times = ("", "") if latency is None else (f"{latency.p50:.0f}", f"{latency.p99:.0f}")
        speed = (f"{1e6 / one.elapsed:,.0f}", f"{1e6 / one.cpu:,.0f}", f"{one.cpu:.2f}", f"{one.user:.2f}")
        rows.append((one.title, *speed, *times))
    parts = ["# Exactly once", results.paragraph(facts), about, paced_about, table(HEAD, rows), "## Targets"]
    return "\n\n".join([*parts, target_table(checked)])
