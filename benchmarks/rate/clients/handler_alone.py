"""The Python handler without a client: called each 5 ms for the records that a producer lingering 5 ms would send."""

import sys
import time

from benchmarks.common.arguments import RateArguments
from benchmarks.rate.handler import FIELDS, Windows

LINGER = 0.005


def main() -> None:
    arguments = RateArguments.parse()
    windows = Windows(arguments)
    start, start_ns = time.perf_counter(), time.time_ns()
    # All are made beforehand: what is measured is the handler.
    values = [
        FIELDS.pack(sequence, start_ns + sequence * 10**9 // arguments.per_second, sequence & 0xFFFFFFFF)
        for sequence in range(arguments.room)
    ]
    made = 0
    while windows.running():
        # The pace itself is what is wanted: this is no wait for a condition.
        time.sleep(LINGER)
        due = int((time.perf_counter() - start) * arguments.per_second)
        for value in values[made:due]:
            windows.handler(value)
        made = due
    windows.report(f"Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
