"""Datagrams on their way."""

import socket
import threading
from collections import Counter
from collections.abc import Iterable

from grete.instrumentation.dogstatsd.address import Address


class Sender:
    """Packs lines into datagrams and sends them. Never waits: what cannot be sent at once is dropped and counted.

    From any thread.
    """

    _socket: socket.socket | None = None

    def __init__(self, address: Address) -> None:
        self.address = address
        self.sent = self.bytes = 0
        self.dropped = Counter[str]()
        """Datagrams by reason: away (nobody takes them), full (nobody takes them quickly enough), name (it cannot be
        looked up), too_long, error."""
        self._lock = threading.Lock()

    def send(self, lines: Iterable[bytes]) -> None:
        """Sends them, as many to a datagram as fit."""
        with self._lock:
            waiting: list[bytes] = []
            size = -1  # the first one has no line break before it
            for line in lines:
                if len(line) > self.address.limit:
                    self.dropped["too_long"] += 1
                    continue
                if size + 1 + len(line) > self.address.limit:
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

    def look_up(self) -> None:
        """Finds out where the name is, if it is one. May take as long as a resolver does."""
        if not self.address.is_name:
            return
        try:
            made = self.address.open()
        except OSError:
            return  # counted with each datagram
        with self._lock:
            before, self._socket = self._socket, made
        if before is not None:
            before.close()

    def close(self) -> None:
        """Gives the descriptor back; who sends more takes another one."""
        with self._lock:
            before, self._socket = self._socket, None
        if before is not None:
            before.close()

    def __del__(self) -> None:
        # Nobody sends any more, so nobody has the lock.
        if self._socket is not None:
            self._socket.close()

    def forget(self) -> None:
        """In a forked child: socket, counts and lock are the parent's, and who has the lock is not here."""
        before, self._socket = self._socket, None
        self._lock = threading.Lock()
        self.sent = self.bytes = 0
        self.dropped.clear()
        if before is not None:
            before.close()  # our copy of the descriptor

    def _send(self, datagram: bytes) -> None:
        try:
            if self._socket is None:
                if self.address.is_name:
                    self.dropped["name"] += 1
                    return
                self._socket = self.address.open()
            try:
                self.address.send(self._socket, datagram)
            except ConnectionRefusedError:
                if self.address.path is not None:
                    raise
                # What came back for the one before; this one has not been sent yet.
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
