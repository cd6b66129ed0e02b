"""The clock of handlers that are called once per record."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from benchmarks.common.meter import Meter

# What one `consume(10000)` brings at most, and what the others get at once is less.
FIRST = 10_000


class Tally(Meter):
    """A meter for handlers that count for themselves and call `reached` only where the clock starts and stops.

    Every client counts in the same way, so a handler that does nothing else costs all the same:

        def handle(message):
            nonlocal seen, mark
            seen += 1
            if seen == mark:
                mark = tally.reached(seen, message)
    """

    def __init__(self, total: int, version: str, end: Callable[[], object]) -> None:
        super().__init__(total)
        self.version = version
        self.end = end

    @property
    def first(self) -> int:
        """After how many records the clock starts."""
        return min(FIRST, self.total // 10)

    def reached(self, seen: int, got: object) -> int:
        """`seen` records have been handled, the last one was `got`. Returns when to call again."""
        if self.add(seen - self.records, 0):
            self.finish(got)
            return -1
        return self.total

    def finish(self, got: object) -> None:
        """Prints the result, with what the handler was given, and ends the client."""
        print(json.dumps({"got": type(got).__name__}))
        self.report(self.version)
        self.end()


def counting(tally: Tally) -> Callable[[object], None]:
    """Such a handler that takes anything."""
    seen, mark = 0, tally.first

    def handle(message: object) -> None:
        nonlocal seen, mark
        seen += 1
        if seen == mark:
            mark = tally.reached(seen, message)

    return handle


def leave() -> None:
    """Ends the process at once: what was to be measured has been, and some peers take seconds to close."""
    sys.stdout.flush()
    os._exit(0)
