"""Servers that are not what they should be, and a proxy that spoils what a real broker says."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

Behaviour = Callable[[socket.socket], None]


def read_frame(connection: socket.socket) -> bytes:
    """One whole frame, without its length."""
    return _exactly(connection, struct.unpack(">i", _exactly(connection, 4))[0])


def read_request(connection: socket.socket) -> tuple[int, int, int]:
    """One whole request: (api key, version, correlation id)."""
    body = read_frame(connection)
    api, version, correlation = struct.unpack_from(">hhi", body)
    return api, version, correlation


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the peer has gone")
        data += part
    return bytes(data)


def frame(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


def until_closed(connection: socket.socket) -> None:
    """Keep the connection, and swallow what comes, until the client gives up."""
    while connection.recv(65536):
        pass


def silence(connection: socket.socket) -> None:
    until_closed(connection)


def close_at_once(_connection: socket.socket) -> None:
    return


def garbage(connection: socket.socket) -> None:
    """Bytes of a fixed seed, whatever is asked."""
    read_request(connection)
    connection.sendall(random.Random(7).randbytes(4096))
    until_closed(connection)


def half_frame(connection: socket.socket) -> None:
    """Announces 1000 bytes, sends 10 and keeps the connection."""
    _, _, correlation = read_request(connection)
    connection.sendall(struct.pack(">ii", 1000, correlation) + b"\0" * 6)
    until_closed(connection)


def half_frame_then_close(connection: socket.socket) -> None:
    _, _, correlation = read_request(connection)
    connection.sendall(struct.pack(">ii", 1000, correlation) + b"\0" * 6)


def wrong_correlation(connection: socket.socket) -> None:
    _, _, correlation = read_request(connection)
    connection.sendall(frame(correlation + 1, struct.pack(">hi", 0, 0)))
    until_closed(connection)


def huge_frame(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(struct.pack(">i", 0x7FFFFFFF))
    until_closed(connection)


def negative_frame(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(struct.pack(">i", -1))
    until_closed(connection)


def huge_array(connection: socket.socket) -> None:
    """ApiVersions that claims two thousand million entries and has none."""
    _, _, correlation = read_request(connection)
    connection.sendall(frame(correlation, struct.pack(">hi", 0, 0x7FFFFFFF)))
    until_closed(connection)


def garbage_metadata(connection: socket.socket) -> None:
    """A sound ApiVersions v0 answer (with the error that asks for v0), then noise for all that follows."""
    rows = [(3, 0, 13), (18, 0, 4), (1, 4, 17), (10, 0, 6), (2, 1, 10)]
    table = struct.pack(">i", len(rows)) + b"".join(struct.pack(">hhh", *row) for row in rows)
    noise = random.Random(11)
    while True:
        api, version, correlation = read_request(connection)
        if api == 18:
            error = 35 if version else 0
            connection.sendall(frame(correlation, struct.pack(">h", error) + table))
        else:
            connection.sendall(frame(correlation, noise.randbytes(300)))


def http(connection: socket.socket) -> None:
    """What a web server says to bytes that are no request line."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def tls_alert(connection: socket.socket) -> None:
    """What a TLS listener says: a fatal alert, protocol_version."""
    connection.recv(65536)
    connection.sendall(bytes((0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46)))


class Server:
    """Treats every connection on a loopback port in one way; counts them."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.connections = 0
        self._behaviour = behaviour
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, name="hostile-accept")

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), name="hostile-serve")
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._behaviour(connection)
            except OSError:
                pass
            finally:
                self._open.discard(connection)

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown wakes the thread that sits in accept or recv; close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._acceptor.join(10.0)
        for thread in self._threads:
            thread.join(10.0)


class Proxy:
    """Passes bytes between clients and a broker; `spoil` says how to treat what the broker sends next.

    `spoil(data)` gets a chunk and returns what to pass on, or None to cut the connection. It stays until replaced.
    """

    def __init__(self, target: tuple[str, int] | None = None) -> None:
        self.target = target
        self.connections = 0
        self.spoil: Callable[[bytes], bytes | None] = bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._stop_reader, self._stop_writer = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="proxy")

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._stop_reader, selectors.EVENT_READ)
            peers: dict[socket.socket, socket.socket] = {}
            brokers: set[socket.socket] = set()
            while True:
                for key, _ in selector.select():
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    if source is self._stop_reader:
                        for open_socket in peers:
                            open_socket.close()
                        return
                    if source is self._listener:
                        self._connect(selector, peers, brokers)
                    elif source in peers and not self._pass(source, peers[source], source in brokers):
                        for end in (source, peers.pop(source)):
                            peers.pop(end, None)
                            brokers.discard(end)
                            selector.unregister(end)
                            end.close()

    def _connect(
        self, selector: selectors.BaseSelector, peers: dict[socket.socket, socket.socket], brokers: set[socket.socket]
    ) -> None:
        client, _ = self._listener.accept()
        try:
            assert self.target is not None
            broker = socket.create_connection(self.target, timeout=5.0)
        except OSError:
            client.close()
            return
        broker.settimeout(None)
        self.connections += 1
        peers[client], peers[broker] = broker, client
        brokers.add(broker)
        for end in (client, broker):
            selector.register(end, selectors.EVENT_READ)

    def _pass(self, source: socket.socket, target: socket.socket, from_broker: bool) -> bool:
        try:
            data: bytes | None = source.recv(65536)
            if data and from_broker:
                data = self.spoil(data)
            if not data:
                return False
            target.sendall(data)
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_writer.send(b"x")
        self._thread.join(10.0)
        for end in (self._stop_reader, self._stop_writer, self._listener):
            end.close()
