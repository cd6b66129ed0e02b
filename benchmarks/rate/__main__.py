"""python -m benchmarks.rate --rates 5000,10000"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common import results
from benchmarks.common.broker import broker
from benchmarks.common.pinning import Cores
from benchmarks.common.run import ClientFailedError
from benchmarks.common.table import number, table

from .driver import CLIENTS, FETCH, PAIRS, Client, Plan, Result, measure

HEAD = ("client", "CPU %", "windows", "us CPU/record", "p50 us", "p99 us", "p99.9 us", "max us", "wrong", "peak RSS MB")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.rate", description=__doc__)
    parser.add_argument("--rates", help="records per second (default: 5000,10000; with --sync: 200)")
    parser.add_argument(
        "--sync", action="store_true", help="each client with its own producer, which waits for records"
    )
    parser.add_argument("--clients", help="comma separated (default: all)")
    parser.add_argument("--warm-up", type=float, default=6.0, help="seconds")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=18.0, help="of each window")
    parser.add_argument("--bootstrap", help="an existing single-node broker")
    parser.add_argument("--broker-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for rate.{json,md}")
    options = parser.parse_args()
    options.rates = options.rates or ("200" if options.sync else "5000,10000")
    return options


# CPU of (a client, over the cheapest of these others): at most this ratio.
CPU_LIMITS: Sequence[tuple[str, Sequence[str], float]] = (
    ("grete", ("floor",), 1.4),
    ("grete-columns", ("floor",), 1.25),
    ("grete-app", ("floor",), 1.25),
    *((name, ("confluent-poll", "confluent-consume"), 0.5) for name in ("grete", "grete-columns", "grete-app")),
    *((name, ("java-warm",), 1 / 4.6) for name in ("grete", "grete-columns", "grete-app")),
    ("grete-latency", ("confluent-consume",), 0.2),
)
LATENCY_P99_US = 115_000


def latency_targets(found: Sequence[Result]) -> list[tuple[str, float, float]]:
    """(what, at most, measured), where each client has its own producer: the App's handler beside the other clients."""
    return [
        (f"{name}: handler of an App over {peer.client}", 1.0, getattr(handler, field) / getattr(peer, field))
        for handler in found
        if handler.client == "grete-app"
        for name, field in (("p50", "p50_us"), ("p99", "p99_us"))
        for peer in found
        if not peer.client.startswith("grete")
    ]


def rate_targets(found: Sequence[Result]) -> list[tuple[str, float, float]]:
    """(what, at most, measured): CPU and latency at each rate."""
    rows: list[tuple[str, float, float]] = []
    for rate in sorted({result.per_second for result in found}):
        by_name = {result.client: result for result in found if result.per_second == rate}
        for name, others, limit in CPU_LIMITS:
            if name in by_name and all(other in by_name for other in others):
                peer = min((by_name[other] for other in others), key=lambda result: result.cpu_percent)
                ratio = by_name[name].cpu_percent / peer.cpu_percent
                rows.append((f"{rate}/s: CPU of {name} over {peer.client}", limit, ratio))
        if (peer_poll := by_name.get("confluent-poll")) and (rows_client := by_name.get("grete")):
            rows.append((f"{rate}/s: p99 of grete over confluent-poll", 1.0, rows_client.p99_us / peer_poll.p99_us))
        if budget := by_name.get("grete-latency"):
            rows.append((f"{rate}/s: p99 of grete-latency over 115 ms", 1.0, budget.p99_us / LATENCY_P99_US))
    return rows


def markdown(
    facts: Mapping[str, Any],
    plan: Plan,
    found: Sequence[Result],
    targets: Sequence[tuple[str, float, float]],
    failures: Sequence[str],
) -> str:
    """The whole page."""
    producer = (
        "a producer of the same client, which waits for each record and does not linger,"
        if facts["sync"]
        else "librdkafka producer with linger.ms=5"
    )
    about = (
        f"Values of 23 bytes, one partition, {producer} on the broker's core, consumer on "
        f"core {facts['cores']['client']}: {FETCH}. Medians of {plan.windows} windows of {plan.seconds:g} s after "
        f"{plan.warm_up:g} s of warm-up. Latency is from produce() to the handler, lingering included; `max` and "
        "`wrong` (gaps, repeats, damaged values) are over all windows."
    )
    parts = ["# End-to-end latency" if facts["sync"] else "# Rate", results.paragraph(facts), about]
    for rate in sorted({result.per_second for result in found}):
        lines = [_line(result) for result in found if result.per_second == rate]
        parts += [f"## {rate:,} records per second", table(HEAD, lines)]
    result_rows = [
        (what, f"< {limit:g}", f"{measured:.2f}", "ok" if measured < limit else "MISSED")
        for what, limit, measured in targets
    ]
    if result_rows:
        parts += ["## Targets", table(("target (ratio)", "wanted", "measured", "result"), result_rows)]
    versions = {result.title: result.version for result in found}
    parts += ["## Versions", "\n".join(f"- **{title}**: {version}" for title, version in versions.items())]
    if failures:
        parts += ["## Failed", *(f"```\n{failure}\n```" for failure in failures)]
    return "\n\n".join(parts)


def _line(result: Result) -> tuple[str, ...]:
    return (
        result.title,
        f"{result.cpu_percent:.2f}",
        ", ".join(f"{share:.2f}" for share in result.cpu_windows),
        number(result.cpu_us_per_record),
        f"{result.p50_us:,.0f}",
        f"{result.p99_us:,.0f}",
        f"{result.p999_us:,.0f}",
        f"{result.max_us:,.0f}",
        str(result.wrong),
        f"{result.peak_rss / 1e6:,.0f}",
    )


def chosen(names: str | None, known: Mapping[str, Client]) -> list[Client]:
    """The clients of a comma-separated list; None: all."""
    wanted = list(known) if names is None else names.split(",")
    if unknown := set(wanted) - set(known):
        raise SystemExit(f"unknown client {min(unknown)}: choose from {', '.join(known)}")
    return [known[name] for name in wanted]


def main() -> int:
    """Exit status 1 if a client failed, saw a wrong record, or a target was missed."""
    options = parse()
    cores = Cores(options.broker_core, options.client_core)
    cores.check()
    plan = Plan(options.warm_up, options.windows, options.seconds)
    found: list[Result] = []
    failures: list[str] = []
    with broker(options.bootstrap, cores.broker) as kafka:
        facts = {**results.circumstances(kafka), "cores": asdict(cores), "plan": asdict(plan), "sync": options.sync}
        for rate in map(int, options.rates.split(",")):
            for client in chosen(options.clients, PAIRS if options.sync else CLIENTS):
                try:
                    found.append(measure(kafka, cores, client, rate, plan))
                    print(f"  {rate}/s {client.name}: {found[-1].cpu_percent:.2f} % CPU", file=sys.stderr, flush=True)
                except ClientFailedError as error:
                    failures.append(f"{client.name} at {rate}/s: {error}")
                    print(f"  FAILED {failures[-1]}", file=sys.stderr, flush=True)
    targets = latency_targets(found) if options.sync else rate_targets(found)
    page = markdown(facts, plan, found, targets, failures)
    print(page)
    missed = [what for what, limit, measured in targets if measured >= limit]
    data = {**facts, "results": [asdict(result) for result in found], "missed": missed, "failures": failures}
    results.write(options.out, "latency" if options.sync else "rate", data, page)
    return int(bool(failures or missed) or any(result.wrong for result in found))


if __name__ == "__main__":
    raise SystemExit(main())
