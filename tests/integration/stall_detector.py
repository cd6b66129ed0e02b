"""Detector for times in which the machine stands still or has no CPU left: measured times mean nothing then."""

from __future__ import annotations

import threading
import time
from typing import Self

BEAT = 0.05
# Seconds. A thread that the scheduler runs at all is never so late.
LATE = 0.3


class Pulse:
    """While entered: a thread that wants to wake up every 50 ms, and notes when it did not."""

    def __init__(self) -> None:
        self.stalls: list[tuple[int, int]] = []  # monotonic ns, from when until when
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def missed(self, begin: int, end: int) -> bool:
        """Whether the machine stood still in that time, or just before it, which takes a while to make up for."""
        return any(since < end and until + 1_000_000_000 > begin for since, until in list(self.stalls))

    def _run(self) -> None:
        before = time.monotonic_ns()
        while not self._stop.wait(BEAT):
            now = time.monotonic_ns()
            if now - before > (BEAT + LATE) * 1e9:
                self.stalls.append((before, now))
            before = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
