"""Periodic work of the supervisor besides its nodes: sd_notify, and the memory report."""

import contextlib
import logging
from collections.abc import Sequence

from grete._swarm.policy.manager import Manager
from grete._swarm.sd_notify import SystemdNotifier
from grete._swarm.status.memory import MemorySampler, describe
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")


class Housekeeping:
    """Notifies the service manager of the swarm's state, and logs the swarm's memory."""

    def __init__(self, manager: Manager, notify: SystemdNotifier, monitor: Monitor | None = None) -> None:
        self._manager = manager
        self._notify = notify
        self._monitor = monitor
        self._memory = MemorySampler()

    def tick(self, now: float) -> None:
        """Implements `TickHandler`."""
        if self._manager.stopping:
            self._notify.stopping()  # also for a stop that the Manager itself has begun
        self._notify.tick(now, self._manager)
        found = self._memory.tick(now, self._manager.nodes)
        if found is not None:
            with contextlib.suppress(Exception):  # a logging handler may raise
                log_and_emit(
                    self._monitor, logger, logging.INFO, "swarm.memory", "%s", describe(found), fields={**found}
                )

    def deadline(self) -> float | None:
        """Implements `TickHandler`."""
        return self._notify.deadline()

    def fds(self) -> Sequence[int]:
        """Implements `TickHandler`."""
        return self._notify.fds()

    def on_command(self, what: str, now: float) -> None:
        """Handles a command of a user: see `CommandHandler`."""
        if what == "stop":
            self._notify.stopping()
        elif what == "restart":
            self._notify.reloading(now)
