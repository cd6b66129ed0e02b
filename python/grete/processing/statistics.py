"""Statistics once in an interval, for those who listen."""

import os
from collections.abc import Callable, Mapping

from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor


class Statistics:
    """The timer of `statistics.emitted`. It runs only while somebody listens.

    It has no thread: the one that runs the App waits no longer than `left`, then calls `tick`. Who subscribes while it
    waits wakes it.
    """

    def __init__(
        self,
        monitor: Monitor | None,
        interval: float,
        make: Callable[[], Mapping[str, object] | None],
        wake: Callable[[], object],
    ) -> None:
        """`interval` in seconds, infinite for never. `make` makes the event's fields; None: there is nothing to tell.

        `wake` ends the wait of the thread, from any other one.
        """
        self._event = None if monitor is None or interval == float("inf") else monitor.event("statistics.emitted")
        self._interval = interval
        self._make = make
        self._wake = wake
        self._due: float | None = None
        self._pid = os.getpid()

    def start(self) -> None:
        """From now on, whoever comes is noticed."""
        if self._event is not None:
            self._event.watch(self._changed)

    def left(self) -> float | None:
        """Seconds until `tick` has something to do; None: until somebody comes, it has not."""
        if not self._event:
            self._due = None
            return None
        now = monotonic()
        if self._due is None:
            self._due = now + self._interval
        return max(self._due - now, 0.0)

    def tick(self) -> None:
        """Emits them if it is time."""
        if self._due is None or (now := monotonic()) < self._due:
            return
        self._due += self._interval
        if self._due <= now:  # a listener was slow, or the machine asleep: what was missed does not come in a burst
            self._due = now + self._interval
        self._emit()

    def last(self) -> None:
        """Emits them whatever the time is: nobody is to miss what came after those before."""
        self._due = None
        self._emit()

    def close(self) -> None:
        """The run is over. Lets go of all that it was made with."""
        if self._event is not None:
            self._event.watch(None)
        self._event, self._make = None, dict

    def _emit(self) -> None:
        if self._event and (fields := self._make()) is not None:
            self._event.emit(**fields)

    def _changed(self) -> None:
        # A forked child has the event with its watcher, and none of the threads that it would wake.
        if self._pid == os.getpid():
            self._wake()
