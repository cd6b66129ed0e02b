"""python -m benchmarks.instrument.run_part PART ROUNDS: measures one part in this process; prints a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from . import allocations, calls, jobs, listeners, scrapes
from .measurement import Measurement

PARTS: dict[str, Callable[[int], Measurement]] = {
    "calls": lambda rounds: Measurement(calls=calls.measure(rounds), allocated=allocations.measure()),
    "jobs": lambda rounds: Measurement(jobs=jobs.measure(rounds)),
    "listeners": lambda rounds: Measurement(listeners=listeners.measure(rounds), scrapes=scrapes.measure(rounds)),
}


def main() -> None:
    """One part."""
    name, rounds = sys.argv[1:]
    print(json.dumps(asdict(PARTS[name](int(rounds)))))


if __name__ == "__main__":
    main()
