"""The control socket: one line of JSON in, one out."""

from collections.abc import Callable, Mapping

from grete.swarm.status import Status


class ControlServer:
    """Answers at a Unix socket, from inside of the supervisor's loop.

    `fd` never changes: it is readable when something is to be done (it is an epoll of its own).
    """

    fd: int
    path: str

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
        """Closes all, and removes the socket if this is the process that made it."""
        raise NotImplementedError


def open_server(
    setting: str | None,
    app: str,
    status: Callable[[bool], Status],
    commands: Mapping[str, Callable[[], object]],
) -> ControlServer | None:
    """Listens. `setting`: a path, None for the default one, "none" for no socket at all: None then.

    `status(memory)` tells what the swarm does; `commands` are "stop", "quiet", "restart" and "dump". ConfigError names
    the path and the cure.
    """
    raise NotImplementedError
