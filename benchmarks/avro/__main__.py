"""python -m benchmarks.avro"""

from __future__ import annotations

import argparse
import gc
import resource
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import results
from benchmarks.common.pinning import Cores, pinned
from benchmarks.common.progress import say
from benchmarks.common.table import number, table
from benchmarks.common.target_results import TargetResult, target_table

from .cases import CASES, Case, ways

# Records per second of CPU over those of confluent-kafka's serializer and deserializer.
FASTER = 10.0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.avro", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2, help="of user CPU, of one way in one round")
    parser.add_argument("--quick", action="store_true", help="three short rounds: a look")
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for avro.{json,md}")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.05
    return options


def user_time() -> float:
    """Seconds of user CPU of this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_utime


def user_cpu(run: Callable[[], Any], seconds: float) -> float:
    """Seconds of user CPU for one call, measured over calls that take about `seconds`."""
    calls, begun = 0, user_time()
    while (taken := user_time() - begun) < seconds:
        for _ in range(10):
            run()
        calls += 10
    return taken / calls


def measure(case: Case, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """One row for each way: microseconds of user CPU for a record, in each round. The ways take turns."""
    all_ways = ways(case)
    micros: list[list[float]] = [[] for _ in all_ways]
    gc.freeze()
    for at in range(rounds):
        say(f"{case.name}: round {at + 1} of {rounds}")
        for way, found in zip(all_ways, micros, strict=True):
            found.append(1e6 * user_cpu(way.run, seconds) / len(case.records))
    return [
        {"case": case.name, "way": way.name, "direction": way.direction, "micros": found, "median": median(found)}
        for way, found in zip(all_ways, micros, strict=True)
    ]


def check_targets(rows: list[dict[str, Any]]) -> list[TargetResult]:
    """The ratio to confluent-kafka, of each case and direction."""
    found = []
    for case in dict.fromkeys(row["case"] for row in rows):
        for direction in ("encode", "decode"):
            by_way = {row["way"]: row["median"] for row in rows if (row["case"], row["direction"]) == (case, direction)}
            for way in ("Grete, dict", "Grete, Struct", "Avro(...), dict", "Avro(...), Struct"):
                ratio = by_way["confluent-kafka"] / by_way[way]
                found.append(TargetResult(f"{case}, {direction}, {way}: over confluent-kafka", ">=", FASTER, ratio))
    return found


def markdown(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The page."""
    lines = []
    for row in rows:
        same = {one["way"]: one["median"] for one in rows if all(one[key] == row[key] for key in ("case", "direction"))}
        rate = number(1e3 / row["median"])
        ratio = number(same["confluent-kafka"] / row["median"])
        lines.append((row["case"], row["direction"], row["way"], number(row["median"]), rate, ratio))
    head = ("records", "direction", "way", "us CPU", "k records/CPU s", "x confluent-kafka")
    versions = ", ".join(f"{name} {version(name)}" for name in ("confluent-kafka", "fastavro", "msgspec"))
    about = (
        f"{results.paragraph(facts)} {versions}. User CPU of one thread; medians of {facts['rounds']} rounds, in which "
        "the ways take turns. All write and read the registry's header; no request is sent while the clock runs. "
        "Grete is the codec alone; Avro(...) is `grete.payloads.Avro` with its encoder and decoder."
    )
    return "\n\n".join(
        [
            "# Avro",
            about,
            table(head, lines, left=3),
            target_table(check_targets(rows)),
        ]
    )


def main() -> int:
    """Exit status 1 if a target was missed."""
    options = parse()
    Cores(client=options.client_core).check()
    with pinned(options.client_core):
        rows = [row for case in CASES for row in measure(case, options.rounds, options.seconds)]
    facts = {**results.circumstances(None), "rounds": options.rounds}
    page = markdown(facts, rows)
    print(page)
    targets = check_targets(rows)
    data = {**facts, "rows": rows, "ratios": {one.text: one.measured for one in targets}}
    say(f"written: {', '.join(map(str, results.write(options.out, 'avro', data, page)))}")
    return int(any(one.missed for one in targets))


if __name__ == "__main__":
    raise SystemExit(main())
