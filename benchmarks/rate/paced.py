"""Values at a steady rate, each sent before the next is made: for producers that wait for each record."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from .handler import FIELDS

VALUE_BYTES = 23


@dataclass(frozen=True)
class Pace:
    """BOOTSTRAP TOPIC PER_SECOND SECONDS"""

    bootstrap: str
    topic: str
    per_second: float
    seconds: float

    @classmethod
    def parse(cls) -> Pace:
        bootstrap, topic, per_second, seconds = sys.argv[1:]
        return cls(bootstrap, topic, float(per_second), float(seconds))

    def run(self, send: Callable[[bytes], object]) -> None:
        """Calls `send` with each value when its time has come. A value holds its sequence, and the time just before."""
        start = time.monotonic()
        for sequence in range(int(self.per_second * self.seconds)):
            # The rate itself is what is wanted: this is no wait for a condition.
            if (rest := start + sequence / self.per_second - time.monotonic()) > 0:
                time.sleep(rest)
            value = FIELDS.pack(sequence, time.time_ns(), sequence & 0xFFFFFFFF)
            send(value.ljust(VALUE_BYTES, b"\0"))
