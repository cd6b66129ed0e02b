"""Loopback ports that stay ours while a broker is down."""

from __future__ import annotations

import socket


class ReservedPort:
    """A free port, held by a socket that is bound and never listens.

    Linux lets the broker bind the same port (both sides set SO_REUSEADDR, and only one listens) but gives it to no
    other socket, neither to a `bind` to port 0 nor to an outgoing connection. So two clusters never pick the same port,
    and a broker that was killed finds its own again. While it is down, a connection is refused as it should be.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        self._socket.close()
