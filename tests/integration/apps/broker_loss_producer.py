"""Produces as fast as it can to a broker that goes away: `flood SERVERS TOPIC KIND MAX_BLOCK KEEP`.

KIND: first (it says "ready" when 20,000 records are written and more are on their way, and a line on its standard input
means that the broker has gone) or never (there is no broker). Then it produces for a while, closes, and says what
became of it, in JSON. KEEP: 1 to keep all deliveries, and to say each one's outcome.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import grete
from tests.kafka.load import value_of

BUFFER = 16 << 20
CLOSE = 1.5


def memory(what: str) -> int:
    """Bytes: VmRSS, or VmHWM, its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    raise AssertionError(what)


class Flood:
    """Values 0, 1, 2 ... of 100 bytes, into partition 0."""

    def __init__(self, producer: grete.client.Producer, topic: str, keep: bool) -> None:
        self.errors: Counter[str] = Counter()
        self.accepted = 0
        self.kept: list[grete.client.Delivery] = []
        self._producer = producer
        self._topic = topic
        self._keep = keep

    def get_going(self) -> None:
        """Until it is in full flow."""
        while self._producer.statistics()["written"] < 20_000:
            self._burst()

    def run(self, gone: threading.Event, seconds: float) -> None:
        """Until the broker has gone, and so many seconds longer, and until a record was refused."""
        end = None
        while end is None or time.monotonic() < end or not self.errors:
            if end is None and gone.is_set():
                end = time.monotonic() + seconds
            self._burst()

    def _burst(self) -> None:
        for _ in range(100):
            try:
                self._produce()
            except grete.GreteError as error:
                self.errors[type(error).__name__] += 1
                # The time may be over: each refusal can take max_block.
                return

    def _produce(self) -> None:
        delivery = self._producer.produce(self._topic, value_of(self.accepted, 100), partition=0)
        self.accepted += 1
        if self._keep:
            self.kept.append(delivery)

    def refused(self) -> tuple[float, str]:
        """How long the next refusal takes, and what it says."""
        while True:
            started = time.monotonic()
            try:
                self._produce()
            except grete.GreteError as error:
                return time.monotonic() - started, f"{type(error).__name__}: {error}"

    def outcomes(self) -> dict[str, list[int]]:
        """{outcome: the indexes}, of what was kept."""
        found: dict[str, list[int]] = {}
        for index, delivery in enumerate(self.kept):
            found.setdefault(str(delivery.outcome), []).append(index)
        return found


def main() -> None:
    servers, topic, kind, max_block, keep = sys.argv[1:]
    settings = {"bootstrap.servers": servers, "buffer.memory": BUFFER, "linger.ms": 0, "batch.size": 65_536}
    producer = grete.client.Producer(settings, max_block=max_block)
    gone = threading.Event()
    resting = memory("VmRSS")
    flood = Flood(producer, topic, keep == "1")
    if kind == "first":
        producer.partitions(topic, 30.0)
        resting = memory("VmRSS")
        flood.get_going()

        def watch() -> None:
            print("ready", flush=True)
            sys.stdin.readline()
            gone.set()

        threading.Thread(target=watch, daemon=True).start()
    else:
        gone.set()
    flood.run(gone, 3.0)
    took, refused = flood.refused()
    peak = memory("VmHWM")
    started = time.monotonic()
    report = producer.close(CLOSE)
    answer = {
        "close_took": time.monotonic() - started,
        "resting": resting,
        "peak": peak,
        "accepted": flood.accepted,
        "errors": flood.errors,
        "refused_after": took,
        "refused": refused,
        "count": report.count,
        "by_topic": report.by_topic,
        "not_written": report.not_written,
        "unknown": report.unknown,
        "outcomes": flood.outcomes(),
    }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
