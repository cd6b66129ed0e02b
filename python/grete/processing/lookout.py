"""The one wait of the thread that runs an App."""

import selectors
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from grete import _core
from grete.client import Producer
from grete.processing.signals import Signals, dump_stacks
from grete.processing.statistics import Statistics

# Seconds. What waits longer waits again; the kernel counts milliseconds in 31 bits.
_LONGEST = 86_400.0


class Lookout:
    """Waits for signals, wake-ups, notices and the time of the statistics at once, and hands the notices on."""

    def __init__(
        self,
        stop: _core.Stop,
        dispatcher: _core.Dispatcher,
        tell: Callable[[Sequence[_core.Notice]], None],
        statistics: Statistics,
    ) -> None:
        self._stop = stop
        self._dispatcher = dispatcher
        self._tell = tell
        self._statistics = statistics
        self._producer: Producer | None = None
        self._registered = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(stop.fd(), selectors.EVENT_READ)
        self._selector.register(dispatcher.event_fd(), selectors.EVENT_READ)

    def add_producer(self, producer: Producer) -> None:
        """Its notices are told, too; from any thread."""
        self._producer = producer
        self._stop.wake()

    def wait(self, timeout: float | None = None) -> list[int]:
        """Until something happens, at most so many seconds; the signals that came."""
        producer = self._producer
        if producer is not None and not self._registered:
            self._selector.register(producer._event_fd(), selectors.EVENT_READ)  # noqa: SLF001
            self._registered = True
        limits = [limit for limit in (timeout, self._statistics.left()) if limit is not None]
        self._selector.select(min(*limits, _LONGEST) if limits else None)
        signals = self._stop.take_signals()
        if Signals.DUMP in signals:
            dump_stacks()
        self.tell()
        self._statistics.tick()
        return signals

    def tell(self) -> None:
        """What there is."""
        self._tell(self._dispatcher.take_notices())
        if self._producer is not None:
            self._tell(self._producer._take_notices())  # noqa: SLF001

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives the descriptors back."""
        self._selector.close()
