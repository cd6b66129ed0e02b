"""What the supervisor does at its ticks besides looking after its nodes."""

import contextlib
import logging
from collections.abc import Sequence
from typing import Protocol

from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.swarm.manager import Manager
from grete.swarm.memory import MemoryWatch, told
from grete.swarm.notify import Notify

logger = logging.getLogger("grete")


class Ticking(Protocol):
    """Called by the loop, in the supervisor's one thread. May neither block nor raise."""

    def tick(self, now: float) -> None:
        """At each common tick, and when the deadline has passed."""
        ...

    def deadline(self) -> float | None:
        """When `tick` is to be called at the latest, by `time.monotonic`. None: the ticks are enough."""
        ...

    def fds(self) -> Sequence[int]:
        """All that a forked child closes."""
        ...


class Chores:
    """Tells the service manager how the swarm does, and the log how much memory it takes."""

    def __init__(self, manager: Manager, notify: Notify, monitor: Monitor | None = None) -> None:
        self._manager = manager
        self._notify = notify
        self._monitor = monitor
        self._memory = MemoryWatch()

    def tick(self, now: float) -> None:
        """See `Ticking`."""
        if self._manager.stopping:
            self._notify.stopping()  # the Manager itself may have begun it
        self._notify.tick(now, self._manager)
        found = self._memory.tick(now, self._manager.nodes)
        if found is not None:
            with contextlib.suppress(Exception):  # of a handler of logs
                tell(self._monitor, logger, logging.INFO, "swarm.memory", "%s", told(found), fields={**found})

    def deadline(self) -> float | None:
        """See `Ticking`."""
        return self._notify.deadline()

    def fds(self) -> Sequence[int]:
        """See `Ticking`."""
        return self._notify.fds()

    def wished(self, what: str, now: float) -> None:
        """Users want this: see `Wishes`."""
        if what == "stop":
            self._notify.stopping()
        elif what == "restart":
            self._notify.reloading(now)
