"""One connection: reads one request, writes one response, closes. Bounded in bytes and in time."""

import logging
import select
import socket
from typing import Protocol

logger = logging.getLogger("grete")

REQUEST_TIMEOUT = 5.0
"""Seconds from the connection to the end of the request."""
RESPONSE_TIMEOUT = 5.0
"""Seconds for the peer to read the response."""
LINGER_TIMEOUT = 1.0
"""Seconds for the peer to close after the response."""
_CHUNK = 4096
_MAX_LINGER_BYTES = 64 << 10


class RequestProtocol(Protocol):
    """Protocol without a socket: bytes in, one response at most. Not called again after a response."""

    def feed(self, data: bytes) -> bytes | None:
        """Takes bytes of the request. Returns the response; None: more bytes are needed."""
        ...

    def on_eof(self) -> bytes | None:
        """Handles the end of the input. Returns the response; None: no response."""
        ...

    def on_timeout(self) -> bytes | None:
        """Handles the timeout of the request. Returns the response; None: no response."""
        ...


class Connection:
    """Socket and protocol. `step` does what is possible without blocking; `interest` is the epoll mask to wait for."""

    def __init__(self, peer: socket.socket, protocol: RequestProtocol, now: float) -> None:
        self._socket = peer
        self._protocol = protocol
        self._response: bytes | memoryview = b""
        self._lingered_bytes = 0
        self.fd = peer.fileno()
        self.since = now
        self.deadline = now + REQUEST_TIMEOUT
        self.interest: int = select.EPOLLIN
        self.responded = False
        self.is_done = False

    def step(self, now: float) -> None:
        """Reads or writes once. Never raises; sets `is_done` when the connection has to be closed."""
        try:
            if not self.responded:
                self._read(now)
            elif self._response:
                self._write(now)
            else:
                self._drain()
        except BlockingIOError:
            pass
        except OSError:
            self.is_done = True  # the peer is gone, and cannot be answered
        except Exception:
            logger.exception("a request could not be answered", extra={"event": "swarm.request.failed"})
            self.is_done = True

    def on_timeout(self, now: float) -> None:
        """Handles a passed deadline."""
        if self.responded:
            self.is_done = True
            return
        self._respond(self._protocol.on_timeout(), now)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _read(self, now: float) -> None:
        data = self._socket.recv(_CHUNK)
        if not data:
            self._respond(self._protocol.on_eof(), now)
            return
        response = self._protocol.feed(data)
        if response is not None:
            self._respond(response, now)

    def _respond(self, response: bytes | None, now: float) -> None:
        self.responded = True
        if not response:
            self.is_done = True
            return
        self._response = memoryview(response)
        self.deadline = now + RESPONSE_TIMEOUT
        self.step(now)

    def _write(self, now: float) -> None:
        self.interest = select.EPOLLOUT
        sent = self._socket.send(self._response, socket.MSG_NOSIGNAL)
        self._response = self._response[sent:]
        if self._response:
            return
        # Closing with unread bytes (a body, a second request) would reset the connection, and the response could be
        # lost on the way. So only the write side is shut down, and the peer closes.
        self._socket.shutdown(socket.SHUT_WR)
        self.interest = select.EPOLLIN
        self.deadline = now + LINGER_TIMEOUT
        self._drain()

    def _drain(self) -> None:
        data = self._socket.recv(_CHUNK)
        self._lingered_bytes += len(data)
        self.is_done = not data or self._lingered_bytes > _MAX_LINGER_BYTES
