"""Server with few connections at a time, inside a loop that never blocks."""

import contextlib
import errno
import logging
import select
import socket
import time
from collections.abc import Callable, Iterable

from grete._swarm.net.connection import Connection, RequestProtocol

logger = logging.getLogger("grete")

MAX_CONNECTIONS = 16
"""Maximum of open connections. One more closes the oldest that has not sent its request."""
_MAX_ACCEPTS = 16
_RETRY_DELAY = 1.0
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server:
    """Answers one request per connection. `fd` is constant: a nested epoll, readable when there is work.

    Call `handle_events` when `fd` is readable, and when `deadline()` has passed.
    """

    def __init__(
        self,
        listeners: Iterable[socket.socket],
        new_protocol: Callable[[socket.socket], RequestProtocol | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`new_protocol` returns the protocol of a connection; None: the connection is closed."""
        self._new_protocol = new_protocol
        self._clock = clock
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._connections: dict[int, Connection] = {}
        self._retry_at: float | None = None
        for fd, listener in self._listeners.items():
            listener.setblocking(False)
            self._epoll.register(fd, select.EPOLLIN)

    def handle_events(self, fd: int = -1, mask: int = 0) -> None:  # noqa: ARG002
        """Does what is possible without blocking. Never raises: an error closes connections, not the supervisor."""
        if self._epoll.closed:
            return
        now = self._clock()
        try:
            for at, _ in self._epoll.poll(0):
                if at in self._listeners:
                    self._accept(self._listeners[at], now)
                elif at in self._connections:
                    self._step_connection(self._connections[at], now)
            self._expire_connections(now)
        except Exception:
            # Nothing above should raise. If it does, the nodes matter more than the clients of this server.
            logger.exception("the server failed; its connections are closed", extra={"event": "swarm.request.failed"})
            for connection in list(self._connections.values()):
                self._close_connection(connection)

    def deadline(self) -> float | None:
        """Returns when `handle_events` must be called, on the monotonic clock; None: only when `fd` is readable."""
        points = [connection.deadline for connection in self._connections.values()]
        if self._retry_at is not None:
            points.append(self._retry_at)
        return min(points, default=None)

    def fds(self) -> list[int]:
        """Returns all descriptors that a forked child has to close."""
        return [] if self._epoll.closed else [self.fd, *self._listeners, *self._connections]

    def close(self) -> None:
        """Closes all sockets. Idempotent."""
        for connection in list(self._connections.values()):
            self._close_connection(connection)
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        self._epoll.close()

    def _accept(self, listener: socket.socket, now: float) -> None:
        for _ in range(_MAX_ACCEPTS):
            try:
                peer, _address = listener.accept()
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._on_out_of_resources(now)
                return
            self._open_connection(peer, now)

    def _open_connection(self, peer: socket.socket, now: float) -> None:
        peer.setblocking(False)
        try:
            protocol = self._new_protocol(peer)
        except OSError:  # closed before its credentials could be read
            protocol = None
        if protocol is None:
            peer.close()
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            self._close_connection(self._oldest())
        connection = Connection(peer, protocol, now)
        self._connections[connection.fd] = connection
        self._epoll.register(connection.fd, connection.interest)
        # Most requests arrive together with the connection.
        self._step_connection(connection, now)

    def _oldest(self) -> Connection:
        """Returns the connection that has waited longest without a request, else the slowest reader of a response."""
        return min(self._connections.values(), key=lambda one: (one.responded, one.since))

    def _on_out_of_resources(self, now: float) -> None:
        """Pauses accepting: without free descriptors the listener stays readable, and a retry at once burns CPU."""
        if self._connections:
            self._close_connection(self._oldest())
        for fd in self._listeners:
            self._epoll.modify(fd, 0)
        self._retry_at = now + _RETRY_DELAY

    def _step_connection(self, connection: Connection, now: float) -> None:
        before = connection.interest
        connection.step(now)
        self._update_interest(connection, before)

    def _update_interest(self, connection: Connection, before: int) -> None:
        if connection.is_done:
            self._close_connection(connection)
        elif connection.interest != before:
            self._epoll.modify(connection.fd, connection.interest)

    def _expire_connections(self, now: float) -> None:
        for connection in list(self._connections.values()):
            if connection.deadline <= now:
                before = connection.interest
                connection.on_timeout(now)
                self._update_interest(connection, before)
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            for fd in self._listeners:
                self._epoll.modify(fd, select.EPOLLIN)

    def _close_connection(self, connection: Connection) -> None:
        # Removed from the epoll before it is closed. A child that is being forked may hold the socket open, and the
        # epoll would go on to report a socket that cannot be removed any more.
        del self._connections[connection.fd]
        with contextlib.suppress(OSError):  # never registered: the number of watches has a limit
            self._epoll.unregister(connection.fd)
        connection.close()
