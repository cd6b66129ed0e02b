"""The producer that all consumers of a process share."""

import logging
import threading
from collections.abc import Mapping

from grete.client import Producer, Undelivered
from grete.errors import ClosedError

logger = logging.getLogger("grete")


class Production:
    """Makes the producer when the first consumer asks for it: a process that produces nothing starts no thread."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._closed = False

    def producer(self) -> Producer:
        """The one producer, from any thread."""
        producer = self._producer
        if producer is not None:
            return producer
        with self._lock:
            if self._closed:
                raise ClosedError("the App has stopped: its producer is closed")
            if self._producer is None:
                self._producer = Producer(self._settings)
            return self._producer

    def close(self, timeout: float) -> Undelivered:
        """Delivers what was produced, within `timeout` seconds; what is left then is given up. No other is made."""
        with self._lock:
            self._closed = True
        return self._producer.close(timeout) if self._producer is not None else Undelivered()

    @property
    def started(self) -> bool:
        """Whether there is something to close."""
        return self._producer is not None
