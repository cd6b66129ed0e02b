"""python -m benchmarks.swarm --parts cpu,memory,delays,idle"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.common import results
from benchmarks.common.broker import broker
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import say
from benchmarks.consume.topics import fill

from . import cpu, delays, idle, memory, report
from .measurement import Bench, Measurement
from .targets import check_targets

PARTS = ("cpu", "memory", "delays", "idle")
TOPICS = {"cpu": cpu.TOPIC, "memory": memory.TOPIC, "delays": delays.TOPIC}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.swarm", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma separated (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="of cpu")
    parser.add_argument("--load", type=float, default=60.0, help="seconds of load in memory")
    parser.add_argument("--kills", type=int, default=200, help="nodes that are killed in delays")
    parser.add_argument("--wedges", type=int, default=2, help="how often all nodes hold the GIL in delays")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of idle")
    parser.add_argument("--quick", action="store_true", help="few and short: a look")
    parser.add_argument("--bootstrap", help="an existing single-node broker with none of these topics")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for swarm.{json,md}")
    options = parser.parse_args()
    if unknown := set(options.parts.split(",")) - set(PARTS):
        parser.error(f"unknown part {min(unknown)}: choose from {', '.join(PARTS)}")
    if options.quick:
        options.rounds, options.load, options.kills, options.wedges, options.idle = 1, 6.0, 16, 1, 5.0
    return options


def measure(bench: Bench, options: argparse.Namespace) -> Measurement:
    """The parts that were asked for."""
    found, parts = Measurement(), options.parts.split(",")
    for part, topic in TOPICS.items():
        if part in parts:
            say(f"filling {topic.name} with {topic.records:,} records")
            fill(bench.broker, Cores(), topic, topic.records)
    if "cpu" in parts:
        cpu.measure(bench, found, options.rounds)
    if "memory" in parts:
        memory.measure(bench, found, options.load)
    if "delays" in parts:
        delays.measure(bench, found, options.kills, options.wedges)
    if "idle" in parts:
        idle.measure(bench, found, options.idle)
    return found


def main() -> int:
    """Exit status 1 if something failed or a target was missed."""
    options = parse()
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two cores are needed: on one, processes compute no faster than threads")
    with broker(options.bootstrap, Cores().broker) as kafka:
        facts = results.circumstances(kafka)
        found = measure(Bench(kafka, options.quick), options)
    page = report.markdown(facts, found)
    print(page)
    paths = results.write(options.out, "swarm", report.data(facts, found), page)
    say(f"written: {', '.join(map(str, paths))}")
    return int(bool(found.failures) or any(result.missed for result in check_targets(found)))


if __name__ == "__main__":
    raise SystemExit(main())
