"""The producer that all consumers of a process share."""

import logging
import threading
from collections.abc import Callable, Mapping

from grete.client import Producer
from grete.errors import ClosedError
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")


class Production:
    """Makes the producer when the first consumer asks for it: a process that produces nothing starts no thread."""

    def __init__(
        self, settings: Mapping[str, str], made: Callable[[Producer], bool], monitor: Monitor | None = None
    ) -> None:
        """`made` hears of the producer; False from it: the App has stopped meanwhile."""
        self._settings = settings
        self._made = made
        self._monitor = monitor
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._closed = False

    def producer(self) -> Producer:
        """The one producer, from any thread."""
        producer = self._producer
        if producer is not None:
            return producer
        with self._lock:
            if self._producer is None:
                if self._closed:
                    raise ClosedError("the App has stopped: its producer is closed")
                producer = Producer(self._settings, monitor=self._monitor)
                if not self._made(producer):
                    # What it took now would not be waited for: see the farewell.
                    self._closed = True
                    producer.close(0.0)
                    raise ClosedError("the App stops: it makes no producer any more")
                self._producer = producer
            return self._producer

    def close(self, timeout: float) -> None:
        """Delivers what was produced, within `timeout` seconds; what is left then is given up. No other is made."""
        with self._lock:
            self._closed = True
            self._made = _too_late  # who listens may own us: descriptors are not to wait for the garbage collector
        if self._producer is not None:
            self._producer.close(timeout)


def _too_late(_producer: Producer) -> bool:
    return False
