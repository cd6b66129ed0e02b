"""One connection: a request comes in, an answer goes out, and that is all. Bounded in bytes and in time."""

import logging
import select
import socket
from typing import Protocol

logger = logging.getLogger("grete")

REQUEST_TIME = 5.0
"""Seconds from the connection to the end of the request."""
ANSWER_TIME = 5.0
"""Seconds for the other side to read the answer."""
FAREWELL_TIME = 1.0
"""Seconds for the other side to close, once it has the answer."""
_CHUNK = 4096
_FAREWELL_BYTES = 64 << 10


class Dialogue(Protocol):
    """A protocol without a socket: bytes in, at most one answer out. After an answer nothing more is fed."""

    def feed(self, data: bytes) -> bytes | None:
        """Some bytes of the request. None: more are needed."""
        ...

    def ended(self) -> bytes | None:
        """No more bytes will come. None: there is nothing to be said."""
        ...

    def late(self) -> bytes | None:
        """The time for the request is over. None: there is nothing to be said."""
        ...


class Connection:
    """A socket and its dialogue. `step` does what is possible without waiting; `interest` says what to wait for."""

    def __init__(self, peer: socket.socket, dialogue: Dialogue, now: float) -> None:
        self._socket = peer
        self._dialogue = dialogue
        self._answer: bytes | memoryview = b""
        self._farewell = 0
        self.fd = peer.fileno()
        self.since = now
        self.deadline = now + REQUEST_TIME
        self.interest: int = select.EPOLLIN
        self.answered = False
        self.over = False

    def step(self, now: float) -> None:
        """Reads or writes once. Never raises; sets `over` when the connection is to be closed."""
        try:
            if not self.answered:
                self._read(now)
            elif self._answer:
                self._write(now)
            else:
                self._drain()
        except BlockingIOError:
            pass
        except OSError:
            self.over = True  # the other side is gone, and there is nobody to tell
        except Exception:
            logger.exception("a request could not be answered", extra={"event": "swarm.answer.failed"})
            self.over = True

    def late(self, now: float) -> None:
        """The deadline has passed."""
        if self.answered:
            self.over = True
            return
        self._say(self._dialogue.late(), now)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _read(self, now: float) -> None:
        data = self._socket.recv(_CHUNK)
        if not data:
            self._say(self._dialogue.ended(), now)
            return
        answer = self._dialogue.feed(data)
        if answer is not None:
            self._say(answer, now)

    def _say(self, answer: bytes | None, now: float) -> None:
        self.answered = True
        if not answer:
            self.over = True
            return
        self._answer = memoryview(answer)
        self.deadline = now + ANSWER_TIME
        self.step(now)

    def _write(self, now: float) -> None:
        self.interest = select.EPOLLOUT
        sent = self._socket.send(self._answer, socket.MSG_NOSIGNAL)
        self._answer = self._answer[sent:]
        if self._answer:
            return
        # Closing with unread bytes (a body, a second request) would reset the connection, and the answer could be lost
        # on the way. So: no more from here, and the other side closes.
        self._socket.shutdown(socket.SHUT_WR)
        self.interest = select.EPOLLIN
        self.deadline = now + FAREWELL_TIME
        self._drain()

    def _drain(self) -> None:
        data = self._socket.recv(_CHUNK)
        self._farewell += len(data)
        self.over = not data or self._farewell > _FAREWELL_BYTES
