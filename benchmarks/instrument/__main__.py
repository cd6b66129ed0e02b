"""python -m benchmarks.instrument --parts calls,jobs,listeners"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.common import results
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import say
from benchmarks.common.run import run_client

from . import report
from .measurement import Measurement
from .targets import check_targets

PARTS = ("calls", "jobs", "listeners")
PEERS = ("blinker", "opentelemetry-api")
# Seconds for one process.
PATIENCE = 600.0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.instrument", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma separated (default: all)")
    parser.add_argument("--rounds", type=int, default=15, help="of calls, and of listeners")
    parser.add_argument("--job-rounds", type=int, default=40, help="of jobs, in each process")
    parser.add_argument("--processes", type=int, default=8, help="for jobs, one after the other")
    parser.add_argument("--core", type=int, default=Cores().client, help="where it is measured")
    parser.add_argument("--quick", action="store_true", help="few rounds: a look")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for instrument.{json,md}")
    options = parser.parse_args()
    if unknown := set(options.parts.split(",")) - set(PARTS):
        parser.error(f"unknown part {min(unknown)}: choose from {', '.join(PARTS)}")
    if options.quick:
        options.rounds, options.job_rounds, options.processes = 3, 10, 2
    return options


def measure(options: argparse.Namespace) -> Measurement:
    """Each part in a process of its own; jobs in several, because where things lie in memory is a process's luck."""
    found = Measurement()
    for part in options.parts.split(","):
        times, rounds = (options.processes, options.job_rounds) if part == "jobs" else (1, options.rounds)
        for number in range(1, times + 1):
            say(f"{part}: {rounds} rounds" + (f", process {number} of {times}" if times > 1 else ""))
            command = [sys.executable, "-m", "benchmarks.instrument.run_part", part, str(rounds)]
            (line,) = run_client(command, options.core, PATIENCE)
            found.add(line)
    return found


def main() -> int:
    """Exit status 1 if something failed or a target was missed."""
    options = parse()
    facts = results.circumstances() | {"peers": {peer: version(peer) for peer in PEERS}}
    found = measure(options)
    page = report.markdown(facts, found)
    print(page)
    paths = results.write(options.out, "instrument", report.data(facts, found), page)
    say(f"written: {', '.join(map(str, paths))}")
    return int(any(result.missed for result in check_targets(found)))


if __name__ == "__main__":
    raise SystemExit(main())
