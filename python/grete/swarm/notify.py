"""What systemd, or whoever else starts services, wants to know: sd_notify(3), without its library."""

import logging
import os
import socket
from collections.abc import MutableMapping, Sequence
from typing import Self

from grete.swarm.status import Managed

logger = logging.getLogger("grete")

TICK = 1.0
"""Seconds between two calls of `tick`."""


class Notify:
    """Tells the service manager. Without one (no NOTIFY_SOCKET) all of it does nothing. Never blocks, never raises."""

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        """`address`: a path, or a name in the abstract namespace after "@". `watchdog`: seconds, the half is kept."""
        self._socket: socket.socket | None = None
        self._address = address.replace("@", "\0", 1) if address and address.startswith("@") else address
        self._every = watchdog / 2 if watchdog else None
        self._fed: float | None = None
        self._ready = False
        self._reloading = False
        self._stopping = False
        self._told = ""
        self._failed = False
        if self._address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] | None = None) -> Self:
        """Reads NOTIFY_SOCKET and WATCHDOG_USEC, and takes them out: nodes do not speak for us."""
        environment = os.environ if environment is None else environment
        address = environment.pop("NOTIFY_SOCKET", None) or None
        period = environment.pop("WATCHDOG_USEC", "")
        keeper = environment.pop("WATCHDOG_PID", "")
        if address is not None and not address.startswith(("/", "@")):
            logger.warning(
                "NOTIFY_SOCKET is %r, which is neither a path nor an abstract socket: nobody is notified",
                address,
                extra={"event": "swarm.notify.failed"},
            )
            address = None
        ours = keeper in ("", str(os.getpid()))
        watchdog = int(period) / 1e6 if period.isascii() and period.isdigit() and ours else None
        return cls(address, watchdog or None)

    @property
    def active(self) -> bool:
        """Whether somebody wants to know."""
        return self._socket is not None

    def tick(self, now: float, manager: Managed) -> None:
        """Call it at each common tick, and when `deadline` has passed.

        READY=1 once all nodes are steady (after a reload: once that is over), STATUS= when it changes, WATCHDOG=1 as
        seldom as its period allows. `now` is on the monotonic clock.
        """
        if self._socket is None:
            return
        lines = []
        status = _status(manager)
        if status != self._told:
            lines.append(f"STATUS={status}")
        now_ready = self._is_ready(manager)
        if now_ready:
            lines.append("READY=1")
        # Not at this tick only if the next one is still in time.
        feed = self._every is not None and (self._fed is None or now + TICK > self._fed + self._every)
        if feed:
            lines.append("WATCHDOG=1")
        if lines and self._send(lines):
            self._told = status
            self._ready = self._ready or now_ready
            self._reloading = self._reloading and not now_ready
            self._fed = now if feed else self._fed

    def deadline(self) -> float | None:
        """When `tick` has to be called even without a common tick; None: those are enough."""
        if self._socket is None or self._every is None or self._every > TICK or self._fed is None:
            return None
        return self._fed + self._every

    def reloading(self, now: float) -> None:
        """A rolling restart begins; READY=1 follows when it is over."""
        if self._ready and not self._stopping and self._send(["RELOADING=1", f"MONOTONIC_USEC={int(now * 1e6)}"]):
            self._ready, self._reloading = False, True

    def stopping(self) -> None:
        """The stop begins."""
        if not self._stopping:
            self._stopping = True
            self._send(["STOPPING=1", "STATUS=stopping"])

    def fds(self) -> Sequence[int]:
        """All that a forked child has to close."""
        return [] if self._socket is None else [self._socket.fileno()]

    def close(self) -> None:
        """Says no more. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _is_ready(self, manager: Managed) -> bool:
        """Whether to say so now. A reload that failed is over, too: what was ready before it still is."""
        if self._ready or self._stopping or manager.rolling:
            return False
        return self._reloading or all(node.phase == "steady" for node in manager.nodes)

    def _send(self, lines: Sequence[str]) -> bool:
        """Whether it was taken; what was not is said again at the next tick."""
        if self._socket is None or self._address is None:
            return False
        try:
            self._socket.sendto("\n".join(lines).encode(), socket.MSG_NOSIGNAL, os.fsencode(self._address))
        except BlockingIOError:
            return False
        except (OSError, ValueError) as error:
            if not self._failed:
                self._failed = True
                logger.warning(
                    "the service manager cannot be told at %r: %s",
                    self._address,
                    error,
                    extra={"event": "swarm.notify.failed"},
                )
            return False
        self._failed = False
        return True


def _status(manager: Managed) -> str:
    """One line, without numbers that change each second."""
    nodes = manager.nodes
    steady = sum(node.phase == "steady" for node in nodes)
    parts = [f"{steady} of {len(nodes)} nodes steady"]
    if manager.stopping:
        parts = [f"stopping, {sum(node.pid is not None for node in nodes)} nodes left"]
    elif manager.quieted:
        parts.append("quiet")
    elif manager.rolling:
        parts.append("restarting one after the other")
    for node in nodes:
        if node.phase == "backoff":
            parts.append(f"node {node.id} starts again soon ({node.last_death or 'it could not start'})")
        elif node.why_stopping and not manager.stopping:
            parts.append(f"node {node.id} is being stopped ({node.why_stopping})")
    return "; ".join(parts).replace("\n", " ")
