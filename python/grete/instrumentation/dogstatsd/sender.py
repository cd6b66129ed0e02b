"""Sender of datagrams."""

import socket
import threading
from collections import Counter
from collections.abc import Iterable

from grete.instrumentation.dogstatsd.address import Address


class Sender:
    """Packs lines into datagrams and sends them. Never blocks: what cannot be sent at once is dropped and counted.

    Thread-safe.
    """

    _socket: socket.socket | None = None

    def __init__(self, address: Address) -> None:
        self.address = address
        self.sent = self.bytes = 0
        self.dropped = Counter[str]()
        """Dropped datagrams by reason: away (no listening agent), full (the agent reads too slowly), name (host name
        cannot be resolved), too_long, error."""
        self._lock = threading.Lock()

    def send(self, lines: Iterable[bytes]) -> None:
        """Sends the lines, as many to a datagram as fit."""
        with self._lock:
            waiting: list[bytes] = []
            size = -1  # the first line has no line break before it
            for line in lines:
                if len(line) > self.address.max_datagram_bytes:
                    self.dropped["too_long"] += 1
                    continue
                if size + 1 + len(line) > self.address.max_datagram_bytes:
                    self._send(b"\n".join(waiting))
                    waiting, size = [], -1
                waiting.append(line)
                size += 1 + len(line)
            if waiting:
                self._send(b"\n".join(waiting))

    @property
    def connected(self) -> bool:
        """Whether there is a socket."""
        return self._socket is not None

    def resolve(self) -> None:
        """Resolves the host name, if there is one. May block as long as the resolver."""
        if not self.address.needs_lookup:
            return
        try:
            made = self.address.open()
        except OSError:
            return  # each datagram is counted as dropped
        with self._lock:
            before, self._socket = self._socket, made
        if before is not None:
            before.close()

    def close(self) -> None:
        """Closes the socket; a later send opens another one."""
        with self._lock:
            before, self._socket = self._socket, None
        if before is not None:
            before.close()

    def __del__(self) -> None:
        # Without references to this object, no thread holds the lock.
        if self._socket is not None:
            self._socket.close()

    def reset_after_fork(self) -> None:
        """Resets the state in a forked child, which shares the parent's socket and lacks the lock's holder."""
        before, self._socket = self._socket, None
        self._lock = threading.Lock()
        self.sent = self.bytes = 0
        self.dropped.clear()
        if before is not None:
            before.close()  # the child's copy of the descriptor

    def _send(self, datagram: bytes) -> None:
        try:
            if self._socket is None:
                if self.address.needs_lookup:
                    self.dropped["name"] += 1
                    return
                self._socket = self.address.open()
            try:
                self.address.send(self._socket, datagram)
            except ConnectionRefusedError:
                if self.address.path is not None:
                    raise
                # The error of the previous datagram; this one has not been sent yet.
                self.dropped["away"] += 1
                self.address.send(self._socket, datagram)
        except (ConnectionRefusedError, FileNotFoundError):
            self.dropped["away"] += 1
        except BlockingIOError:
            self.dropped["full"] += 1
        except OSError:
            self.dropped["error"] += 1
        else:
            self.sent += 1
            self.bytes += len(datagram)
