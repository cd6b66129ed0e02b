"""What users want of a running swarm, however they say it: signals, the control socket."""

import signal
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from grete.processing.signals import dump_stacks


class Wishing(Protocol):
    """The Manager, as far as wishes go."""

    @property
    def stopping(self) -> bool: ...
    def stop(self, now: float) -> None: ...
    def hurry(self, now: float) -> None: ...
    def quiet(self, now: float) -> None: ...
    def restart(self, now: float) -> None: ...
    def dump(self, now: float) -> None: ...


class Wishes:
    """Takes them to the Manager, and tells who listens: "stop", "quiet", "restart" or "dump"."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP, signal.SIGHUP, signal.SIGTTIN)

    def __init__(self, manager: Wishing, tell: Callable[[str, float], object] | None = None) -> None:
        self._manager = manager
        self._tell = tell

    @property
    def commands(self) -> Mapping[str, Callable[[], None]]:
        """By name, for the control socket."""
        return {"stop": self.stop, "quiet": self.quiet, "restart": self.restart, "dump": self.dump}

    def on_signal(self, signum: int) -> None:
        """One that has come to the supervisor."""
        if signum == signal.SIGINT and self._manager.stopping:
            self._manager.hurry(time.monotonic())
        elif signum in (signal.SIGINT, signal.SIGTERM):
            self.stop()
        elif signum == signal.SIGTSTP:
            self.quiet()
        elif signum == signal.SIGHUP:
            self.restart()
        elif signum == signal.SIGTTIN:
            self.dump()

    def stop(self) -> None:
        """All nodes finish what they do, and then the supervisor ends. A second one says nothing new."""
        if not self._manager.stopping:
            self._say("stop", self._manager.stop)

    def quiet(self) -> None:
        """No more records are handed out."""
        self._say("quiet", self._manager.quiet)

    def restart(self) -> None:
        """One node after the other."""
        self._say("restart", self._manager.restart)

    def dump(self) -> None:
        """The stacks of all threads, of the supervisor and of all nodes, to stderr."""
        dump_stacks()
        self._say("dump", self._manager.dump)

    def _say(self, what: str, to: Callable[[float], object]) -> None:
        now = time.monotonic()
        to(now)
        if self._tell is not None:
            self._tell(what, now)
