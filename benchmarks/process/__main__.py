"""python -m benchmarks.process --parts noop,json,waiting,wakeups,stuck,transform"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from benchmarks.common import results
from benchmarks.common.broker import broker
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import say
from benchmarks.consume.rows import rows
from benchmarks.consume.topics import JSON, Topic, fill

from . import calls, report, stuck, transform, waiting, wakeups
from .catalogue import PARTS, RECORDS, TOPIC
from .measurement import Bench, Measurement
from .targets import check_targets

MORE_PARTS = ("waiting", "wakeups", "stuck", "transform")


def parse() -> argparse.Namespace:
    """The command line."""
    names = dict.fromkeys(name for part in PARTS.values() for name in part.clients)
    parts = (*PARTS, *MORE_PARTS)
    parser = argparse.ArgumentParser(prog="benchmarks.process", description=__doc__)
    parser.add_argument("--parts", default=",".join(parts), help="comma separated (default: all)")
    parser.add_argument("--clients", help=f"of noop and json, comma separated (default: all): {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=3, help="of noop, json and transform")
    parser.add_argument("--records", type=int, default=RECORDS, help="of noop, json and transform, at most")
    parser.add_argument("--stuck", type=float, default=60.0, help="for how many seconds a partition is stuck")
    parser.add_argument("--quick", action="store_true", help="one round, a fifth of the records, short windows: a look")
    parser.add_argument("--bootstrap", help="an existing single-node broker with none of these topics")
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=90.0, help="seconds per process")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for process.{json,md}")
    options = parser.parse_args()
    for what, wanted, known in (("part", options.parts, parts), ("client", options.clients, names)):
        unknown = set(wanted.split(",") if wanted else ()) - set(known)
        if unknown:
            parser.error(f"unknown {what} {min(unknown)}: choose from {', '.join(known)}")
    if options.quick:
        options.rounds, options.records, options.stuck = 1, options.records // 5, min(options.stuck, 8.0)
    return options


def measure(bench: Bench, options: argparse.Namespace) -> Measurement:
    """The parts that were asked for."""
    found, parts = Measurement(), options.parts.split(",")
    called = [part for part in PARTS.values() if part.name in parts]
    topics: list[Topic] = []
    if called or "wakeups" in parts:
        # Jobs beside a crowd run for as long as the options say.
        records = RECORDS if "wakeups" in parts else options.records
        topics.append(Topic(TOPIC, records, "json", JSON))
    if {"waiting", "wakeups", "stuck"} & set(parts):
        topics += waiting.TOPICS.values()
    if "transform" in parts:
        topics += transform.TOPICS.values()
    for topic in topics:
        say(f"filling {topic.name} with {topic.records:,} records")
        fill(bench.broker, bench.cores, topic, topic.records)
    for number in range(1, options.rounds + 1):
        for part in called:
            wanted = options.clients.split(",") if options.clients else part.clients
            clients = [client for name, client in part.clients.items() if name in wanted]
            calls.measure(bench, found, part, clients, number, options.rounds, options.records)
    if "waiting" in parts:
        waiting.measure(bench, found)
    if "wakeups" in parts:
        wakeups.measure(bench, found)
    if "stuck" in parts:
        stuck.measure(bench, found, options.stuck)
    if "transform" in parts:
        transform.measure(bench, found, options.rounds, options.records)
    return found


def main() -> int:
    """Exit status 1 if a client failed or a target was missed."""
    options = parse()
    cores = Cores(options.broker_core, options.client_core)
    cores.check()
    with broker(options.bootstrap, cores.broker) as kafka:
        facts = {**results.circumstances(kafka), "cores": asdict(cores)}
        found = measure(Bench(kafka, cores, options.timeout, options.quick), options)
    page = report.markdown(facts, found, options.records, options.rounds)
    print(page)
    plot = report.plot(facts, rows(found.runs).values())
    paths = results.write(options.out, "process", report.data(facts, found), page, plot)
    say(f"written: {', '.join(map(str, paths))}")
    return int(bool(found.failures) or any(result.missed for result in check_targets(found)))


if __name__ == "__main__":
    raise SystemExit(main())
