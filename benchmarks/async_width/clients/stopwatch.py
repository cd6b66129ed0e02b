"""Counts the handlers that run at once, and measures time and CPU."""

from __future__ import annotations

import asyncio
import json
import resource
import time

from benchmarks.common.process import peak_rss


class Stopwatch:
    """Measures `records` handlers on one event loop that wait `seconds` each.

    Time counts from the start of the first handler. CPU counts from the creation of the stopwatch, before the client
    connects: how much a client has fetched and decoded before its first handler starts differs.
    """

    def __init__(self, records: int, seconds: float) -> None:
        self.finished = asyncio.Event()
        self._records, self._seconds = records, seconds
        self._begun = self._ended = self._most = 0
        self._wall, self._cpu = 0.0, _cpu()

    async def handle(self) -> None:
        """Waits, as for a request to a service."""
        if not self._begun:
            self._wall = time.perf_counter()
        self._begun += 1
        self._most = max(self._most, self._begun - self._ended)
        await asyncio.sleep(self._seconds)
        self._ended += 1
        if self._ended == self._records:
            self._wall = time.perf_counter() - self._wall
            self._cpu = (_cpu()[0] - self._cpu[0], _cpu()[1] - self._cpu[1])
            self.finished.set()

    def report(self, version: str) -> None:
        """Prints the line that the driver reads."""
        user, system = self._cpu
        line = {"records": self._ended, "seconds": self._wall, "user": user, "system": system}
        print(json.dumps({**line, "at_once": self._most, "peak_rss": peak_rss(), "version": version}), flush=True)


def _cpu() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime
