"""Main loop of the App's thread: one selector for signals, wake-ups, log events and timers."""

import selectors
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from grete import _native
from grete._process.stacks import dump_stacks
from grete._processing.events.statistics_timer import StatisticsTimer
from grete._processing.reports.web_reports import WebReports
from grete._processing.signals import Signals
from grete.client import Producer

# Seconds. Longer waits are repeated, because the kernel counts milliseconds in 31 bits.
_MAX_WAIT = 86_400.0


class MainLoop:
    """Waits for signals, wake-ups, log events and timers at once, and passes log events on."""

    def __init__(
        self,
        stop: _native.Shutdown,
        dispatcher: _native.Dispatcher,
        log_event_handler: Callable[[Sequence[_native.LogEvent]], None],
        statistics: StatisticsTimer,
        web_reports: WebReports | None = None,
    ) -> None:
        self._stop = stop
        self._dispatcher = dispatcher
        self._log_event_handler = log_event_handler
        self._timers: list[StatisticsTimer | WebReports] = [statistics]
        if web_reports is not None:
            self._timers.append(web_reports)
        self._producer: Producer | None = None
        self._registered = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(stop.fd(), selectors.EVENT_READ)
        self._selector.register(dispatcher.event_fd(), selectors.EVENT_READ)

    def add_producer(self, producer: Producer) -> None:
        """Adds the producer's log events to the wait. Thread-safe."""
        self._producer = producer
        self._stop.wake()

    def wait(self, timeout: float | None = None) -> list[int]:
        """Waits until something happens, at most `timeout` seconds (None: no limit). Returns the signals."""
        producer = self._producer
        if producer is not None and not self._registered:
            self._selector.register(producer._event_fd(), selectors.EVENT_READ)  # noqa: SLF001
            self._registered = True
        limits = [limit for limit in (timeout, *(timer.remaining() for timer in self._timers)) if limit is not None]
        self._selector.select(min(*limits, _MAX_WAIT) if limits else None)
        signals = self._stop.drain_signals()
        if Signals.DUMP in signals:
            dump_stacks()
        self.drain_log_events()
        for timer in self._timers:
            timer.tick()
        return signals

    def drain_log_events(self) -> None:
        """Passes the present log events to the handler, in the order in which they happened."""
        events = self._dispatcher.drain_log_events()
        if self._producer is not None and (own := self._producer._drain_log_events()):  # noqa: SLF001
            events = sorted((*events, *own), key=lambda event: event.time)
        self._log_event_handler(events)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the descriptors."""
        self._selector.close()

    def leave_to_parent(self) -> None:
        """Closes the descriptors in a forked child."""
        self.close()
