"""Steady orders, and when their invoices are committed: paced BOOTSTRAP PER_SECOND WARM_UP SECONDS.

Prints JSON: milliseconds from `produce` of an order to the reader of its invoice, and the number of records. The
warm-up begins with the first invoice, so that a client has the time that it needs to start.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from itertools import count
from statistics import quantiles

import grete.client
from benchmarks.pipeline.records import BATCH, INVOICES, ORDERS, order_values

# Seconds until the first invoice must be there.
START_TIMEOUT = 60.0
_DIGITS = 9


class Load(threading.Thread):
    """Produces orders at a rate until `stopping`; `sent` has the time of each."""

    def __init__(self, bootstrap: str, per_second: float) -> None:
        super().__init__(name="load", daemon=True)
        self.sent: list[float] = []
        self.stopping = threading.Event()
        self._servers = bootstrap
        self._per_second = per_second

    def run(self) -> None:
        with grete.client.Producer({"bootstrap.servers": self._servers, "linger.ms": "0"}) as producer:
            start = time.monotonic()
            for first in count(0, BATCH):
                values, keys = order_values(first, BATCH)
                for number, (value, key) in enumerate(zip(values, keys, strict=True), first):
                    # The rate itself is what is wanted: this is no wait for a condition.
                    if self.stopping.wait(max(0.0, start + number / self._per_second - time.monotonic())):
                        return
                    self.sent.append(time.monotonic())
                    producer.produce(ORDERS, value, key=key)


def latencies(bootstrap: str, sent: list[float], warm_up: float, seconds: float) -> list[float]:
    """Reads invoices as they are committed. Returns the seconds that each took within the window."""
    found: list[float] = []
    begin, end = float("inf"), time.monotonic() + START_TIMEOUT
    with grete.client.Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([(INVOICES, 0, 0)])
        while time.monotonic() < end:
            messages = consumer.poll(timeout=0.1)
            now = time.monotonic()
            if not messages:
                continue
            if begin == float("inf"):
                begin, end = now + warm_up, now + warm_up + seconds
            if now >= begin:
                found += [now - sent[_number(value)] for value in messages.values() if value is not None]
    return found


def _number(invoice: bytes) -> int:
    """The number of the order. All clients write its name first, some with spaces."""
    at = invoice.index(b"order-") + len(b"order-")
    return int(invoice[at : at + _DIGITS])


def main() -> None:
    bootstrap, per_second, warm_up, seconds = sys.argv[1:]
    load = Load(bootstrap, float(per_second))
    load.start()
    found = latencies(bootstrap, load.sent, float(warm_up), float(seconds))
    load.stopping.set()
    load.join(10.0)
    if len(found) < 100:
        raise SystemExit(f"only {len(found)} invoices in {seconds} s")
    percentiles = quantiles(found, n=100)
    print(json.dumps({"p50": percentiles[49] * 1e3, "p99": percentiles[98] * 1e3, "records": len(found)}))


if __name__ == "__main__":
    main()
