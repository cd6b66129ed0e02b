"""sd_notify(3) without its library: state of the swarm for systemd or another service manager."""

import logging
import os
import socket
from collections.abc import MutableMapping, Sequence
from typing import Self

from grete._plural import counted
from grete._swarm.status.snapshot import ManagerView

logger = logging.getLogger("grete")

TICK = 1.0
"""Seconds between two calls of `tick`."""


class SystemdNotifier:
    """Notifies the service manager; without NOTIFY_SOCKET does nothing. Never blocks, never raises."""

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        """`address`: a path, or "@" and an abstract name. `watchdog`: period in seconds; WATCHDOG=1 is sent at half of
        it.
        """
        self._socket: socket.socket | None = None
        self._address = address.replace("@", "\0", 1) if address and address.startswith("@") else address
        self._watchdog_interval = watchdog / 2 if watchdog else None
        self._watchdog_sent_at: float | None = None
        self._ready = False
        self._reloading = False
        self._stopping = False
        self._sent_status = ""
        self._failed = False
        if self._address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] | None = None) -> Self:
        """Reads NOTIFY_SOCKET and WATCHDOG_USEC, and removes them: nodes must not notify."""
        environment = os.environ if environment is None else environment
        address = environment.pop("NOTIFY_SOCKET", None) or None
        period = environment.pop("WATCHDOG_USEC", "")
        keeper = environment.pop("WATCHDOG_PID", "")
        if address is not None and not address.startswith(("/", "@")):
            logger.warning(
                "NOTIFY_SOCKET is %r, neither a path nor an abstract socket; the service manager is not notified",
                address,
                extra={"event": "swarm.notify.failed"},
            )
            address = None
        ours = keeper in ("", str(os.getpid()))
        watchdog = int(period) / 1e6 if period.isascii() and period.isdigit() and ours else None
        return cls(address, watchdog or None)

    @property
    def active(self) -> bool:
        """Whether there is a service manager to notify."""
        return self._socket is not None

    def tick(self, now: float, manager: ManagerView) -> None:
        """Sends what has changed. Called at each common tick, and when `deadline` has passed.

        READY=1 once all nodes are ready (after a reload: once the reload is over), STATUS= when it changes, WATCHDOG=1
        as rarely as its period allows. `now` is on the monotonic clock.
        """
        if self._socket is None:
            return
        lines = []
        status = _status_line(manager)
        if status != self._sent_status:
            lines.append(f"STATUS={status}")
        now_ready = self._is_ready(manager)
        if now_ready:
            lines.append("READY=1")
        # Skipped at this tick only if the next tick is still in time.
        feed = self._watchdog_interval is not None and (
            self._watchdog_sent_at is None or now + TICK > self._watchdog_sent_at + self._watchdog_interval
        )
        if feed:
            lines.append("WATCHDOG=1")
        if lines and self._send(lines):
            self._sent_status = status
            self._ready = self._ready or now_ready
            self._reloading = self._reloading and not now_ready
            self._watchdog_sent_at = now if feed else self._watchdog_sent_at

    def deadline(self) -> float | None:
        """Returns when `tick` has to be called without a common tick; None: the common ticks are enough."""
        if (
            self._socket is None
            or self._watchdog_interval is None
            or self._watchdog_interval > TICK
            or self._watchdog_sent_at is None
        ):
            return None
        return self._watchdog_sent_at + self._watchdog_interval

    def reloading(self, now: float) -> None:
        """Announces a rolling restart; READY=1 follows at its end."""
        if self._ready and not self._stopping and self._send(["RELOADING=1", f"MONOTONIC_USEC={int(now * 1e6)}"]):
            self._ready, self._reloading = False, True

    def stopping(self) -> None:
        """Announces the stop."""
        if not self._stopping:
            self._stopping = True
            self._send(["STOPPING=1", "STATUS=stopping"])

    def fds(self) -> Sequence[int]:
        """Returns all descriptors that a forked child has to close."""
        return [] if self._socket is None else [self._socket.fileno()]

    def close(self) -> None:
        """Closes the socket. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _is_ready(self, manager: ManagerView) -> bool:
        """Returns whether READY=1 is due. A failed reload is over, too: nodes that were ready before still are."""
        if self._ready or self._stopping or manager.rolling:
            return False
        return self._reloading or all(node.phase == "ready" for node in manager.nodes)

    def _send(self, lines: Sequence[str]) -> bool:
        """Returns whether the message was accepted; a message that was not is sent again at the next tick."""
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
                    "the service manager cannot be notified at %r: %s",
                    self._address,
                    error,
                    extra={"event": "swarm.notify.failed"},
                )
            return False
        self._failed = False
        return True


def _status_line(manager: ManagerView) -> str:
    """Returns one line, without numbers that change each second."""
    nodes = manager.nodes
    ready = sum(node.phase == "ready" for node in nodes)
    parts = [f"{ready} of {counted(len(nodes), 'node')} ready"]
    if manager.stopping:
        parts = [f"stopping, {counted(sum(node.pid is not None for node in nodes), 'node')} left"]
    elif manager.quieted:
        parts.append("quiet")
    elif manager.rolling:
        parts.append("restarting one after the other")
    for node in nodes:
        if node.phase == "backoff":
            parts.append(f"node {node.id} starts again soon ({node.last_death or 'it could not start'})")
        elif node.stop_reason and not manager.stopping:
            parts.append(f"node {node.id} is being stopped ({node.stop_reason})")
    return "; ".join(parts).replace("\n", " ")
