"""Handler of every Python consumer, and the report of its windows."""

from __future__ import annotations

import json
import time
from array import array
from itertools import pairwise
from struct import Struct
from typing import Any

from benchmarks.common.arguments import RateArguments
from benchmarks.common.process import peak_rss

FIELDS = Struct("<QQI")


class Handler:
    """Unpacks the fields of a value and stores them in arrays made beforehand."""

    def __init__(self, room: int) -> None:
        self.sequences = array("Q", bytes(8 * room))
        self.latencies = array("q", bytes(8 * room))
        self.numbers = array("I", bytes(4 * room))
        self.count = 0

    def __call__(self, value: bytes) -> None:
        sequence, sent, number = FIELDS.unpack_from(value)
        at = self.count
        self.sequences[at] = sequence
        self.latencies[at] = time.time_ns() - sent
        self.numbers[at] = number
        self.count = at + 1

    def wrong(self, records: range) -> int:
        """Places where the sequence does not go on, or the fields contradict each other."""
        seen = self.sequences[records.start : records.stop]
        numbers = self.numbers[records.start : records.stop]
        gaps = sum(after != before + 1 for before, after in pairwise(seen))
        return gaps + sum(number != sequence & 0xFFFFFFFF for number, sequence in zip(numbers, seen, strict=True))


class Windows:
    """Warm-up, then windows of equal length; all computing is done after the last, when nothing is measured."""

    def __init__(self, arguments: RateArguments) -> None:
        self.handler = Handler(arguments.room)
        self._lengths = [arguments.warm_up, *[arguments.seconds] * arguments.windows]
        # (wall, CPU, records so far) at each boundary.
        self._marks: list[tuple[float, float, int]] = []
        self._end = 0.0

    def running(self) -> bool:
        """To be asked before each poll; False when the last window is over."""
        if time.perf_counter() < self._end:
            return True
        self._marks.append((time.perf_counter(), time.process_time(), self.handler.count))
        if len(self._marks) > len(self._lengths):
            return False
        self._end = self._marks[-1][0] + self._lengths[len(self._marks) - 1]
        return True

    def report(self, version: str) -> None:
        """Print the line that the driver reads; the warm-up is left out."""
        windows = [self._window(before, after) for before, after in list(pairwise(self._marks))[1:]]
        print(json.dumps({"windows": windows, "peak_rss": peak_rss(), "version": version}), flush=True)

    def _window(self, before: tuple[float, float, int], after: tuple[float, float, int]) -> dict[str, Any]:
        records = range(before[2], after[2])
        latencies = sorted(self.handler.latencies[records.start : records.stop])

        def at(share: float) -> float:
            return latencies[int((len(latencies) - 1) * share)] / 1e3 if latencies else 0.0

        return {
            "seconds": after[0] - before[0],
            "cpu_seconds": after[1] - before[1],
            "records": len(records),
            "wrong": self.handler.wrong(records),
            "p50_us": at(0.5),
            "p99_us": at(0.99),
            "p999_us": at(0.999),
            "max_us": at(1.0),
        }
