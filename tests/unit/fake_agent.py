"""An agent that answers as a test wants, well or badly, and keeps what it was sent."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

RATES = b'{"rate_by_service":{}}'


@dataclass
class Request:
    """One request, and on which connection it came (from 0)."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def traces(self) -> list[list[dict[str, Any]]]:
        decoded: list[list[dict[str, Any]]] = msgpack.unpackb(self.body, strict_map_key=True)
        return decoded

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [span for trace in self.traces for span in trace]


def answer(status: int = 200, body: bytes = RATES, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Word", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


Piece = bytes | None
Answer = Callable[[Request], Piece | Iterator[Piece]]
"""What is sent back, at once or piece by piece; None: the connection is reset; b"": it ends."""


class FakeAgent:
    """Each connection has a thread of its own. `reply` may be changed at any time."""

    def __init__(self, path: Path | None = None) -> None:
        self.reply: Answer = lambda request: answer()
        self.requests: list[Request] = []
        self.released = threading.Event()
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen()
            self.url = f"unix://{path}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [span for request in list(self.requests) for span in request.spans]

    def stall(self, request: Request) -> bytes:
        """An answer that does not come before the test has ended."""
        self.released.wait()
        return b""

    def drip(self, request: Request) -> Iterator[Piece]:
        """A good answer, a byte at a time: each comes soon, all of them take seconds."""
        for byte in answer():
            yield bytes([byte])
            if self.released.wait(0.05):
                return

    def close(self) -> None:
        self.released.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection, len(self._open) - 1))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            stream = connection.makefile("rb")
            while line := stream.readline().decode().strip():
                headers = {}
                while header := stream.readline().decode().strip():
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                request = Request(line, headers, stream.read(int(headers["content-length"])), number)
                reply = self.reply(request)
                self.requests.append(request)
                for piece in [reply] if reply is None or isinstance(reply, bytes) else reply:
                    if piece is None:
                        # Linger with no time: what is unsent is thrown away, and the other side sees a reset.
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    if not piece:
                        return
                    connection.sendall(piece)


@contextlib.contextmanager
def fake_agent(path: Path | None = None) -> Iterator[FakeAgent]:
    agent = FakeAgent(path)
    try:
        yield agent
    finally:
        agent.close()
