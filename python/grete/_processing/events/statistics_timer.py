"""Periodic statistics for listeners."""

import os
from collections.abc import Callable, Mapping

from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor


class StatisticsTimer:
    """Timer of `statistics.emitted`. Active only while a listener is subscribed.

    It has no thread: the thread of the App waits no longer than `remaining`, then calls `tick`. A new subscription
    wakes that thread.
    """

    def __init__(
        self,
        monitor: Monitor | None,
        interval: float,
        collect: Callable[[], Mapping[str, object] | None],
        wake: Callable[[], object],
    ) -> None:
        """`interval` in seconds, infinite: never. `collect` returns the event's fields; None: nothing to emit.

        `wake` ends the wait of the App's thread, from any other thread.
        """
        self._event = None if monitor is None or interval == float("inf") else monitor.event("statistics.emitted")
        self._interval = interval
        self._collect = collect
        self._wake = wake
        self._next_at: float | None = None
        self._pid = os.getpid()

    def start(self) -> None:
        """Begins to watch for subscriptions."""
        if self._event is not None:
            self._event.watch(self._on_subscribers_changed)

    def remaining(self) -> float | None:
        """Returns the seconds until `tick` has something to do; None: not before a listener subscribes."""
        if not self._event:
            self._next_at = None
            return None
        now = monotonic()
        if self._next_at is None:
            self._next_at = now + self._interval
        return max(self._next_at - now, 0.0)

    def tick(self) -> None:
        """Emits the statistics if it is time."""
        if self._next_at is None or (now := monotonic()) < self._next_at:
            return
        self._next_at += self._interval
        if self._next_at <= now:  # a slow listener, or system suspend: missed ticks are skipped
            self._next_at = now + self._interval
        self._emit()

    def emit_final(self) -> None:
        """Emits the statistics at once, so that listeners get the numbers since the last tick."""
        self._next_at = None
        self._emit()

    def close(self) -> None:
        """Ends the timer, and drops its references."""
        if self._event is not None:
            self._event.watch(None)
        self._event, self._collect = None, dict

    def _emit(self) -> None:
        if self._event and (fields := self._collect()) is not None:
            self._event.emit(**fields)

    def _on_subscribers_changed(self) -> None:
        # A forked child has a copy of the event with this watcher, but not the thread that the watcher would wake.
        if self._pid == os.getpid():
            self._wake()
