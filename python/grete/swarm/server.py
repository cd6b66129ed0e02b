"""Listens, and speaks with few at a time, from inside of a loop that never waits for anybody."""

import contextlib
import errno
import logging
import select
import socket
import time
from collections.abc import Callable, Iterable

from grete.swarm.connection import Connection, Dialogue

logger = logging.getLogger("grete")

CONNECTIONS = 16
"""Open at a time. One more closes the oldest that has not said what it wants."""
_ACCEPTS = 16
_RETRY = 1.0
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server:
    """Answers one request a connection. `fd` never changes: it is an epoll of its own, readable when there is work.

    Call `ready` when `fd` is readable, and when `deadline()` has passed.
    """

    def __init__(
        self,
        listeners: Iterable[socket.socket],
        admit: Callable[[socket.socket], Dialogue | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`admit` gives the protocol of one connection, or None: it is closed."""
        self._admit = admit
        self._clock = clock
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._connections: dict[int, Connection] = {}
        self._retry_at: float | None = None
        for fd, listener in self._listeners.items():
            listener.setblocking(False)
            self._epoll.register(fd, select.EPOLLIN)

    def ready(self, fd: int = -1, mask: int = 0) -> None:  # noqa: ARG002
        """Does what can be done without waiting. Never raises: what goes wrong ends connections, not the supervisor."""
        if self._epoll.closed:
            return
        now = self._clock()
        try:
            for at, _ in self._epoll.poll(0):
                if at in self._listeners:
                    self._accept(self._listeners[at], now)
                elif at in self._connections:
                    self._advance(self._connections[at], now)
            self._expire(now)
        except Exception:
            # Nothing above should raise. If it does, the nodes are worth more than who asks about them.
            logger.exception("answering went wrong", extra={"event": "swarm.answer.failed"})
            for connection in list(self._connections.values()):
                self._forget(connection)

    def deadline(self) -> float | None:
        """When `ready` is to be called at the latest, on the monotonic clock; None: only when `fd` is readable."""
        points = [connection.deadline for connection in self._connections.values()]
        if self._retry_at is not None:
            points.append(self._retry_at)
        return min(points, default=None)

    def fds(self) -> list[int]:
        """All that a forked child has to close."""
        return [] if self._epoll.closed else [self.fd, *self._listeners, *self._connections]

    def close(self) -> None:
        """Closes all. Idempotent."""
        for connection in list(self._connections.values()):
            self._forget(connection)
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        self._epoll.close()

    def _accept(self, listener: socket.socket, now: float) -> None:
        for _ in range(_ACCEPTS):
            try:
                peer, _address = listener.accept()
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._no_room(now)
                return
            self._meet(peer, now)

    def _meet(self, peer: socket.socket, now: float) -> None:
        peer.setblocking(False)
        try:
            dialogue = self._admit(peer)
        except OSError:  # gone before it could be asked who it is
            dialogue = None
        if dialogue is None:
            peer.close()
            return
        if len(self._connections) >= CONNECTIONS:
            self._forget(self._oldest())
        connection = Connection(peer, dialogue, now)
        self._connections[connection.fd] = connection
        self._epoll.register(connection.fd, connection.interest)
        # Most requests come with the connection.
        self._advance(connection, now)

    def _oldest(self) -> Connection:
        """Who has waited longest without a request; else who has taken longest to read the answer."""
        return min(self._connections.values(), key=lambda one: (one.answered, one.since))

    def _no_room(self, now: float) -> None:
        """No descriptor is left: the listener stays readable, and asking again at once would only burn the CPU."""
        if self._connections:
            self._forget(self._oldest())
        for fd in self._listeners:
            self._epoll.modify(fd, 0)
        self._retry_at = now + _RETRY

    def _advance(self, connection: Connection, now: float) -> None:
        before = connection.interest
        connection.step(now)
        self._settle(connection, before)

    def _settle(self, connection: Connection, before: int) -> None:
        if connection.over:
            self._forget(connection)
        elif connection.interest != before:
            self._epoll.modify(connection.fd, connection.interest)

    def _expire(self, now: float) -> None:
        for connection in list(self._connections.values()):
            if connection.deadline <= now:
                before = connection.interest
                connection.late(now)
                self._settle(connection, before)
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            for fd in self._listeners:
                self._epoll.modify(fd, select.EPOLLIN)

    def _forget(self, connection: Connection) -> None:
        # First out of the epoll, then closed: a child that is just being forked may hold the socket open, and the
        # epoll would go on to report what nobody can take out of it any more.
        del self._connections[connection.fd]
        with contextlib.suppress(OSError):  # it may never have got in: their number has a limit
            self._epoll.unregister(connection.fd)
        connection.close()
