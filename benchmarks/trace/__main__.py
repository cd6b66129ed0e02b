"""python -m benchmarks.trace --parts send,child,jobs"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.common import results
from benchmarks.common.pinning import Cores
from benchmarks.common.progress import say

from . import jobs, report, sending, span_cost
from .measurement import Bench, Measurement
from .targets import check_targets

PARTS = {"send": sending.measure, "child": span_cost.measure, "jobs": jobs.measure}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.trace", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma separated (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="of one client at one size in send")
    parser.add_argument("--quick", action="store_true", help="two rounds, short windows: a look")
    parser.add_argument("--sink-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="directory for trace.{json,md}")
    options = parser.parse_args()
    if unknown := set(options.parts.split(",")) - set(PARTS):
        parser.error(f"unknown part {min(unknown)}: choose from {', '.join(PARTS)}")
    if options.quick:
        options.rounds, options.seconds = 2, 0.1
    return options


def main() -> int:
    """Exit status 1 if something failed or a target was missed."""
    options = parse()
    Cores(options.sink_core, options.client_core).check()
    bench = Bench(options.sink_core, options.client_core, options.rounds, options.seconds)
    found = Measurement()
    for part in options.parts.split(","):
        PARTS[part](bench, found)
    facts = {**results.circumstances(None), "rounds": options.rounds}
    page = report.markdown(facts, found)
    print(page)
    paths = results.write(options.out, "trace", report.data(facts, found), page)
    say(f"written: {', '.join(map(str, paths))}")
    return int(bool(found.failures) or any(result.missed for result in check_targets(found)))


if __name__ == "__main__":
    raise SystemExit(main())
