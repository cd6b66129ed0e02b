"""The clocks that the Python clients use (the other languages do the same by hand)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks.common.process import own_switches, peak_rss


def _print(line: dict[str, Any]) -> None:
    print(json.dumps({"pass": "only", **line, "peak_rss": peak_rss()}), flush=True)


class SyncMeter:
    """Latencies of single sends, with the CPU time and the voluntary context switches of all of them."""

    def __init__(self) -> None:
        self.latencies_ns: list[int] = []
        # From the moment when the answer was read to the one when the caller runs again.
        self.handovers_ns: list[int] = []
        self._sent = 0
        self._switches = (0, 0)
        self._cpu = 0.0

    def measure(self, send: Callable[[], object], warm_up: int, records: int) -> None:
        """Calls `send`, which returns when the record is acknowledged."""
        for _ in range(warm_up):
            send()
        clock, note = time.perf_counter_ns, self.latencies_ns.append
        self.handovers_ns.clear()
        self.start(warm_up)
        for _ in range(records):
            before = clock()
            send()
            note(clock() - before)
        self.stop()

    def start(self, warm_up: int) -> None:
        """Starts to measure: records sent before do not count."""
        self._sent = warm_up
        self._switches, self._cpu = own_switches(), time.process_time()

    def stop(self) -> None:
        """Before the client is closed."""
        self._cpu = time.process_time() - self._cpu
        caller, process = own_switches()
        self._switches = (caller - self._switches[0], process - self._switches[1])

    def report(self, version: str) -> None:
        """Print the line that the driver reads."""
        line: dict[str, Any] = {
            "sent": self._sent + len(self.latencies_ns),
            "latencies_ns": self.latencies_ns,
            "cpu_seconds": self._cpu,
            "caller_switches": self._switches[0],
            "process_switches": self._switches[1],
            "version": version,
        }
        if self.handovers_ns:
            line["handovers_ns"] = self.handovers_ns
        _print(line)


class ThroughputMeter:
    """Wall and CPU time from the first produce to the last acknowledgement; made when the client has warmed up."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def report(self, counted: int, warm_up: int, version: str) -> None:
        """Stop the clock, once all is acknowledged, and print the line that the driver reads."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        _print(
            {
                "sent": warm_up + counted,
                "counted": counted,
                "seconds": wall,
                "cpu_seconds": cpu,
                "version": version,
            }
        )
