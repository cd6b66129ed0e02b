"""Producer that all consumers of a process share."""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping

from grete.client import Producer
from grete.errors import ClosedError, GreteError
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")


class _AppProducer(Producer):
    """Producer whose log lines are those of the App, whichever thread fetches them."""

    _logger = logger


class SharedProducer:
    """Creates the producer on first use, so that a process that produces nothing starts no producer thread."""

    def __init__(
        self, settings: Mapping[str, str], on_created: Callable[[Producer], bool], monitor: Monitor | None = None
    ) -> None:
        """`on_created` gets the producer; it returns False if the App has stopped meanwhile."""
        self._settings = settings
        self._on_created = on_created
        self._monitor = monitor
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._closed = False

    def get(self) -> Producer:
        """Returns the shared producer. Thread-safe."""
        producer = self._producer
        if producer is not None:
            return producer
        with self._lock:
            if self._producer is None:
                if self._closed:
                    raise ClosedError("the App has stopped: its producer is closed")
                producer = _AppProducer(self._settings, monitor=self._monitor)
                if not self._on_created(producer):
                    # The stop no longer waits for its records: see `ShutdownSequence`.
                    self._closed = True
                    producer.close(0.0)
                    raise ClosedError("the App stops: it makes no producer any more")
                self._producer = producer
            return self._producer

    def flush(self, timeout: float) -> None:
        """Waits until all records are delivered or refused, at most `timeout` seconds."""
        producer = self._producer
        if producer is not None and timeout > 0:
            with contextlib.suppress(GreteError):  # the records that remain are reported when the producer is closed
                producer.flush(timeout)

    def close(self, timeout: float) -> None:
        """Delivers pending records within `timeout` seconds, and gives up the rest. `get` raises from now on."""
        with self._lock:
            self._closed = True
            self._on_created = (
                _refuse_after_close  # breaks a reference cycle that would keep descriptors until the next collection
            )
        if self._producer is not None:
            self._producer.close(timeout)


def _refuse_after_close(_producer: Producer) -> bool:
    return False
