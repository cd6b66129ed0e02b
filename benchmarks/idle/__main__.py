"""python -m benchmarks.idle"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from benchmarks.common import results
from benchmarks.common.broker import broker
from benchmarks.common.pinning import Cores
from benchmarks.common.table import table

from .driver import CLIENTS, PARTITIONS, Result, measure

HEAD = ("client", "CPU ms per window", "CPU %", "switches/s", "of them involuntary/s", "threads", "RSS MB")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.idle", description=__doc__)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="comma separated (default: all)")
    parser.add_argument("--settle", type=float, default=25.0, help="seconds between assignment and the first window")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each window")
    parser.add_argument("--bootstrap", help="an existing broker without a topic `idle`")
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for idle.{json,md}")
    return parser.parse_args()


def targets(found: list[Result]) -> list[tuple[str, float, float]]:
    """(what, limit, Grete's): few context switches, and fewer of them and less CPU than each peer."""
    by_name = {result.client: result for result in found}
    grete = by_name.get("grete")
    if grete is None:
        return []
    rows = [("switches/s, at most 5", 5.0, grete.switches_per_second)]
    for peer in found:
        if peer is not grete:
            rows.append((f"CPU ms, below {peer.client}", peer.cpu_ms, grete.cpu_ms))
            rows.append((f"switches/s, below {peer.client}", peer.switches_per_second, grete.switches_per_second))
    return rows


def main() -> int:
    """Exit status 1 if a target was missed."""
    options = parse()
    cores = Cores(options.broker_core, options.client_core)
    cores.check()
    unknown = set(options.clients.split(",")) - set(CLIENTS)
    if unknown:
        raise SystemExit(f"unknown client {min(unknown)}: choose from {', '.join(CLIENTS)}")
    clients = [CLIENTS[name] for name in options.clients.split(",")]
    with broker(options.bootstrap, cores.broker) as kafka:
        facts = {**results.circumstances(kafka), "cores": asdict(cores)}
        found = measure(kafka, cores, clients, options.settle, options.windows, options.seconds)
    lines = [
        (
            result.title,
            f"{result.cpu_ms:.1f}",
            f"{result.cpu_percent:.3f}",
            f"{result.switches_per_second:.1f}",
            f"{result.involuntary_per_second:.1f}",
            str(result.threads),
            f"{result.rss / 1e6:.0f}",
        )
        for result in found
    ]
    result_rows = [
        (what, f"< {limit:.2f}", f"{measured:.2f}", "ok" if measured < limit else "MISSED")
        for what, limit, measured in targets(found)
    ]
    versions = {client.package: version(client.package) for client in clients}
    about = (
        f"Subscribed in a group of its own to an empty topic with {PARTITIONS} partitions; "
        f"{options.settle:g} s to settle, medians of {options.windows} windows of {options.seconds:g} s; "
        f"all at once on core {cores.client}. Sums over all threads of the process, seen from outside."
    )
    parts = ["# Idle", results.paragraph(facts), about, table(HEAD, lines)]
    if result_rows:
        parts += ["## Targets", table(("target", "wanted", "measured", "result"), result_rows)]
    parts += ["## Versions", "\n".join(f"- {name} {number}" for name, number in versions.items())]
    page = "\n\n".join(parts)
    print(page)
    data = {**facts, "versions": versions, "results": [asdict(result) for result in found]}
    results.write(options.out, "idle", data, page)
    return int(any(measured >= limit for _, limit, measured in targets(found)))


if __name__ == "__main__":
    raise SystemExit(main())
