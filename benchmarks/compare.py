"""Ratio of two builds of Grete: python -m benchmarks.compare ../before --benchmarks consume,produce.

Runs the same benchmark in this checkout and in another one, in turns, one round each time: a slow phase of the machine
hits both alike. Each checkout runs with its own `.venv` and its own copy of the benchmark, so both have to be built
(`make build kafka`, and `pip install -r benchmarks/requirements.txt`). A figure is the median of the ratios of pairs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.common.paired import Interval
from benchmarks.common.progress import say

# What each benchmark is asked for: Grete's own clients, one round.
_ARGUMENTS = {
    "consume": "--rounds 1 --records 3000000 --clients grete-rows,grete-columns,grete-app",
    "produce": "--rounds 1 --parts sync,throughput --clients grete,grete-one,grete-many,grete-arrow --records 1000000",
    "process": "--rounds 1 --parts noop,json --clients grete-message,grete-rows,grete-columns,grete-payload",
    "swarm": "--quick --parts cpu,idle",
    "instrument": "--quick --parts calls,jobs,listeners",
    "trace": "--quick --parts send,jobs",
}
# Where its results have costs, in which less is better: the list, what names an entry, the cost.
_COSTS: dict[str, list[tuple[str, tuple[str, ...], str]]] = {
    "consume": [("rows", ("topic", "row"), "cpu_per_million")],
    "produce": [("sync", ("row",), "p50_us"), ("throughput", ("shape", "row"), "cpu_per_million")],
    "process": [("rows", ("topic", "row"), "cpu_per_million")],
    "swarm": [("idle", ("name",), "cpu_ms_per_second")],
    "instrument": [
        ("calls", ("name",), "nanoseconds"),
        ("jobs", ("name",), "without_us"),
        ("listeners", ("name",), "without_us"),
    ],
    "trace": [("sent", ("name", "spans"), "cpu_seconds"), ("jobs", ("agent", "handler"), "microseconds")],
}


def main() -> None:
    """Measures, and prints a table of ratios: this checkout over the other one."""
    parser = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path, help="a checkout with the build to compare with")
    parser.add_argument("--benchmarks", default=",".join(_ARGUMENTS), help="comma separated (default: all)")
    parser.add_argument("--pairs", type=int, default=5, help="how often both run")
    parser.add_argument("--arguments", help="of the benchmark, instead of those of this module")
    options = parser.parse_args()
    here, other = Path(__file__).resolve().parents[1], options.other.resolve()
    for name in options.benchmarks.split(","):
        if name not in _ARGUMENTS:
            parser.error(f"unknown benchmark {name}: choose from {', '.join(_ARGUMENTS)}")
        ratios: dict[str, list[float]] = {}
        for pair in range(options.pairs):
            say(f"{name}: pair {pair + 1}/{options.pairs}")
            # The one that began the last pair ends this one.
            order = (here, other) if pair % 2 else (other, here)
            found = {checkout: run(checkout, name, options.arguments or _ARGUMENTS[name]) for checkout in order}
            for row in found[here].keys() & found[other].keys():
                if found[other][row] > 0 and found[here][row] > 0:
                    ratios.setdefault(row, []).append(found[here][row] / found[other][row])
        report(name, ratios)


def run(checkout: Path, name: str, arguments: str) -> dict[str, float]:
    """Runs a benchmark once. Returns its costs by the names of their rows."""
    with tempfile.TemporaryDirectory() as out:
        command = [str(checkout / ".venv/bin/python"), "-m", f"benchmarks.{name}", *arguments.split(), "--out", out]
        # Its status says whether it reached its targets, which one short round need not.
        subprocess.run(command, cwd=checkout, check=False, stdout=subprocess.DEVNULL)
        return dict(costs(name, json.loads((Path(out) / f"{name}.json").read_text())))


def costs(name: str, results: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yields the costs in the results of a benchmark: the row's name, and the median if there are several."""
    for key, names, cost in _COSTS[name]:
        for entry in results.get(key, ()):
            value = entry.get(cost)
            if value is not None:
                yield (
                    " ".join([key, *(str(entry[one]) for one in names)]),
                    median(value) if isinstance(value, list) else value,
                )


def report(name: str, ratios: dict[str, list[float]]) -> None:
    """Prints a row for each figure, and their geometric mean."""
    for row, values in sorted(ratios.items()):
        print(f"{name:<10} {row:<50} {Interval.of(values)}", flush=True)
    if ratios:
        mean = exp(fmean(log(median(values)) for values in ratios.values()))
        print(f"{name:<10} {'geometric mean of the medians':<50} {mean:.3f}", flush=True)


if __name__ == "__main__":
    main()
