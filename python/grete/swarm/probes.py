"""Liveness and readiness over HTTP, of the supervisor and all nodes on one port."""

from collections.abc import Callable

from grete.swarm.status import Status


class ProbeServer:
    """Answers HTTP from inside of the supervisor's loop; `fd`, `ready` and so on are as of `ControlServer`."""

    fd: int
    addresses: tuple[str, ...]

    def ready(self, fd: int, mask: int) -> None:
        """Call it when `fd` is readable, and when `deadline()` has passed. Never blocks, never raises."""
        raise NotImplementedError

    def deadline(self) -> float | None:
        """The point on the monotonic clock at which `ready` is to be called at the latest."""
        raise NotImplementedError

    def fds(self) -> list[int]:
        """All that a forked child has to close."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes all."""
        raise NotImplementedError


def open_server(address: str | None, status: Callable[[bool], Status]) -> ProbeServer | None:
    """Listens at "[HOST:]PORT"; None or "none": nowhere. ConfigError names the address and the cure."""
    raise NotImplementedError
