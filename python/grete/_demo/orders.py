"""Producer of the demo: orders at a steady rate, from a thread of its own."""

import json
import threading
import time

from grete.client import Producer
from grete.errors import GreteError

TOPIC = "orders"
RATE = 1000
"""Orders per second."""
CUSTOMERS = 500
POISON_CURRENCY = "CHF"
_BATCH = 50
_CURRENCIES = ("EUR", "USD", "GBP")
_WRITE_TIMEOUT = 10.0


class OrderProducer:
    """Thread that writes `RATE` orders per second until `stop`. Orders are numbered from 0 on."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "client.id": "grete-demo"})
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._next = 0
        self._thread = threading.Thread(target=self._run, name="grete-demo-orders")
        self.written = 0
        """Orders that the broker has acknowledged."""
        self.failure: str | None = None
        """Cause of the end of the thread by an error; None: no error."""

    def start(self) -> None:
        """Starts to write."""
        self._thread.start()

    def write_poison(self) -> tuple[int, int, int]:
        """Writes one order in a currency without a rate. Returns its number, its partition and its offset."""
        with self._lock:
            number, record = self._order(POISON_CURRENCY)
            delivery = self._producer.produce_sync(TOPIC, record[1], key=record[0], timeout=_WRITE_TIMEOUT)
            self.written += 1
        assert delivery.offset is not None  # acks=all
        return number, delivery.partition, delivery.offset

    def stop(self) -> None:
        """Ends the thread; all orders that it took are written or given up when the call returns. May be repeated."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.close(timeout=1.0)

    def _run(self) -> None:
        # Batches are due at fixed times, so that a slow one does not lower the rate.
        due = time.monotonic()
        try:
            while not self._ended.wait(max(0.0, due - time.monotonic())):
                due = max(due + _BATCH / RATE, time.monotonic() - 1.0)
                with self._lock:
                    records = [self._order(_CURRENCIES[at % len(_CURRENCIES)])[1] for at in range(_BATCH)]
                    self._producer.produce_many(TOPIC, records).wait(_WRITE_TIMEOUT)
                    self.written += _BATCH
        except (GreteError, TimeoutError) as error:
            self.failure = f"orders cannot be written: {error}"

    def _order(self, currency: str) -> tuple[int, tuple[bytes, bytes]]:
        number = self._next
        self._next += 1
        order = {"id": number, "amount": 10 + number % 90, "currency": currency}
        return number, (b"customer-%d" % (number % CUSTOMERS), json.dumps(order).encode())
