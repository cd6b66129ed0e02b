"""python -m benchmarks.produce --parts sync,throughput,waiting --rounds 5"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.common import results
from benchmarks.common.broker import broker
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import say

from . import report, waiting
from .catalogue import RECORDS, SHAPES, SYNC, SYNC_RECORDS, THROUGHPUT
from .driver import Driver

PARTS = ("sync", "throughput", "waiting")
T = TypeVar("T")


def parse() -> argparse.Namespace:
    """The command line."""
    names = dict.fromkeys([*SYNC, *THROUGHPUT, *waiting.WAITERS])
    parser = argparse.ArgumentParser(prog="benchmarks.produce", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma separated (default: all)")
    parser.add_argument("--clients", help=f"comma separated (default: all): {', '.join(names)}")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="of the throughput part (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=RECORDS, help="per run of the throughput part")
    parser.add_argument("--sync-records", type=int, default=SYNC_RECORDS, help="per run of the sync part")
    parser.add_argument("--bootstrap", help="an existing single-node broker; it is not made to hang")
    parser.add_argument("--tls", action="store_true", help="sync over TLS, the clients that can; writes produce_tls.*")
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per process")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for produce.{json,md,svg}")
    options = parser.parse_args()
    known = {"part": (options.parts, PARTS), "shape": (options.shapes, SHAPES), "client": (options.clients, names)}
    for what, (wanted, there) in known.items():
        unknown = set(wanted.split(",") if wanted else ()) - set(there)
        if unknown:
            parser.error(f"unknown {what} {min(unknown)}: choose from {', '.join(there)}")
    if options.tls and options.bootstrap:
        parser.error("--tls starts a broker of its own: leave --bootstrap out")
    if options.tls and options.parts not in ("sync", ",".join(PARTS)):
        parser.error("--tls measures the part sync alone: leave --parts out")
    return options


def chosen(clients: Mapping[str, T], names: str | None) -> list[T]:
    """Those that were named, or all."""
    return [client for name, client in clients.items() if names is None or name in names.split(",")]


def main() -> int:
    """Exit status 1 if a client failed or a target was missed."""
    options = parse()
    cores = Cores(options.broker_core, options.client_core)
    cores.check()
    parts = ["sync"] if options.tls else options.parts.split(",")
    with broker(options.bootstrap, cores.broker, options.tls) as kafka:
        facts = {**results.circumstances(kafka), "cores": asdict(cores), "tls": options.tls}
        driver = Driver(kafka, cores, options.timeout)
        driver.warm_up_broker()
        if "sync" in parts:
            clients = [client for client in chosen(SYNC, options.clients) if client.over_tls or not options.tls]
            driver.measure_sync(clients, options.rounds, options.sync_records)
        if "throughput" in parts:
            clients = chosen(THROUGHPUT, options.clients)
            for number in range(1, options.rounds + 1):
                for shape in options.shapes.split(","):
                    driver.measure_throughput(SHAPES[shape], clients, number, options.rounds, options.records)
        if "waiting" in parts and kafka.kill is not None:
            hang, go_on = partial(kafka.kill, signal.SIGSTOP), partial(kafka.kill, signal.SIGCONT)
            for waiter in chosen(waiting.WAITERS, options.clients):
                waiting.measure(driver, waiter, hang, go_on)
    measured = driver.found
    name = "produce_tls" if options.tls else "produce"
    page = report.markdown(facts, measured, options.rounds, options.records)
    print(page)
    paths = results.write(options.out, name, report.data(facts, measured), page, report.plot(facts, measured))
    say(f"written: {', '.join(map(str, paths))}")
    return int(bool(measured.failures) or any(result.missed for result in report.check_targets(measured)))


if __name__ == "__main__":
    raise SystemExit(main())
