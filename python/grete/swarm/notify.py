"""What systemd wants to know of a service."""

from typing import Self

from grete.swarm.status import Status


class Notify:
    """Tells the service manager. Without one (no NOTIFY_SOCKET) all of it does nothing. Never blocks, never raises."""

    @classmethod
    def from_environment(cls) -> Self:
        """Reads NOTIFY_SOCKET and WATCHDOG_USEC, and removes them from the environment: nodes do not speak for us."""
        raise NotImplementedError

    def tick(self, now: float, status: Status) -> None:
        """Call it at each common tick: READY=1 once all nodes are steady, STATUS= when it changed, WATCHDOG=1 in time."""
        raise NotImplementedError

    def deadline(self) -> float | None:
        """When the watchdog has to be fed at the latest, on the monotonic clock; None: the ticks are enough."""
        raise NotImplementedError

    def reloading(self, now: float) -> None:
        """A rolling restart begins; READY=1 follows when it is over."""
        raise NotImplementedError

    def stopping(self) -> None:
        """The stop begins."""
        raise NotImplementedError
