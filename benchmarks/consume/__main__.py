"""python -m benchmarks.consume --topics T23,T100 --rounds 3"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from benchmarks.common import results
from benchmarks.common.broker import broker
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import say

from . import report
from .catalogue import CLIENTS
from .driver import measure, named
from .rows import rows
from .targets import check_targets
from .topics import TOPICS


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.consume", description=__doc__)
    parser.add_argument("--topics", default=",".join(TOPICS), help="comma separated (default: all)")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="comma separated (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, help="at most so many records per topic")
    parser.add_argument("--scale", type=float, default=1.0, help="times the size of every topic")
    parser.add_argument("--bootstrap", help="an existing single-node broker with none of these topics")
    parser.add_argument("--tls", action="store_true", help="over TLS, the clients that can; writes consume_tls.*")
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per process")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for consume.{json,md,svg}")
    options = parser.parse_args()
    if options.tls and options.bootstrap:
        parser.error("--tls starts a broker of its own: leave --bootstrap out")
    return options


def main() -> int:
    """Exit status 1 if a client failed or a target was missed."""
    options = parse()
    cores = Cores(options.broker_core, options.client_core)
    cores.check()
    topics = [TOPICS[name] for name in named(options.topics.split(","), TOPICS, "topic")]
    clients = [CLIENTS[name] for name in named(options.clients.split(","), CLIENTS, "client")]
    with broker(options.bootstrap, cores.broker, options.tls) as kafka:
        facts = {**results.circumstances(kafka), "cores": asdict(cores), "tls": options.tls}
        measured = measure(
            kafka, cores, topics, clients, options.rounds, options.scale, options.records, options.timeout
        )
    page = report.markdown(facts, measured, options.rounds)
    print(page)
    name = "consume_tls" if options.tls else "consume"
    paths = results.write(options.out, name, report.data(facts, measured), page, report.plot(facts, measured))
    say(f"written: {', '.join(map(str, paths))}")
    return int(
        bool(measured.failures) or any(result.missed for result in check_targets(rows(measured.runs), options.tls))
    )


if __name__ == "__main__":
    raise SystemExit(main())
