"""Commands for a running swarm, from signals and from the control socket."""

import signal
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from grete._process.stacks import dump_stacks


class CommandTarget(Protocol):
    """Part of the Manager that handles commands."""

    @property
    def stopping(self) -> bool: ...
    def stop(self, now: float) -> None: ...
    def expedite(self, now: float) -> None: ...
    def quiet(self, now: float) -> None: ...
    def restart(self, now: float) -> None: ...
    def dump(self, now: float) -> None: ...


class CommandHandler:
    """Passes commands to the Manager, then calls `on_command`: "stop", "quiet", "restart" or "dump"."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP, signal.SIGHUP, signal.SIGTTIN)

    def __init__(self, manager: CommandTarget, on_command: Callable[[str, float], object] | None = None) -> None:
        self._manager = manager
        self._on_command = on_command

    @property
    def commands(self) -> Mapping[str, Callable[[], None]]:
        """Commands by name, for the control socket."""
        return {"stop": self.stop, "quiet": self.quiet, "restart": self.restart, "dump": self.dump}

    def on_signal(self, signum: int) -> None:
        """Handles a signal of the supervisor."""
        if signum == signal.SIGINT and self._manager.stopping:
            self._manager.expedite(time.monotonic())
        elif signum in (signal.SIGINT, signal.SIGTERM):
            self.stop()
        elif signum == signal.SIGTSTP:
            self.quiet()
        elif signum == signal.SIGHUP:
            self.restart()
        elif signum == signal.SIGTTIN:
            self.dump()

    def stop(self) -> None:
        """Stops the swarm: all nodes finish what they do, then the supervisor ends. A second call does nothing."""
        if not self._manager.stopping:
            self._apply("stop", self._manager.stop)

    def quiet(self) -> None:
        """Makes the nodes hand out no more records."""
        self._apply("quiet", self._manager.quiet)

    def restart(self) -> None:
        """Begins a rolling restart."""
        self._apply("restart", self._manager.restart)

    def dump(self) -> None:
        """Writes the stacks of all threads, of the supervisor and of all nodes, to stderr."""
        dump_stacks()
        self._apply("dump", self._manager.dump)

    def _apply(self, command: str, to: Callable[[float], object]) -> None:
        now = time.monotonic()
        to(now)
        if self._on_command is not None:
            self._on_command(command, now)
