"""The clock that every Python client uses (the other languages do the same by hand)."""

from __future__ import annotations

import json
import time

from .process import peak_rss


class Meter:
    """Counts records and bytes until `total`.

    The clock starts when the first batch has been handled, and the records of that batch are not in `counted`: so
    start-up, connecting and the first fetch are excluded in the same way for all.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.records = 0
        self.bytes = 0
        self._first = 0
        self._wall = self._cpu = 0.0

    def add(self, records: int, size: int) -> bool:
        """One batch; True once all records have been seen."""
        self.records += records
        self.bytes += size
        if self._first == 0 and records:
            self._first = records
            self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self.records >= self.total

    @property
    def done(self) -> bool:
        return self.records >= self.total

    def report(self, version: str) -> None:
        """Stop the clock and print the line that the driver reads."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        line = {
            "pass": "only",
            "records": self.records,
            "counted": self.records - self._first,
            "bytes": self.bytes,
            "seconds": wall,
            "cpu_seconds": cpu,
            "peak_rss": peak_rss(),
            "version": version,
        }
        print(json.dumps(line), flush=True)
