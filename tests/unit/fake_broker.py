"""A broker of a few answers: enough to produce to, and to leave a producer waiting."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from grete import _native

PRODUCE, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 3, 18, 22
# (API, lowest, highest version): the oldest ones, which are simple to write.
SPOKEN = [(PRODUCE, 3, 3), (METADATA, 7, 7), (API_VERSIONS, 0, 3), (INIT_PRODUCER_ID, 2, 2)]
UNKNOWN_TOPIC = 3

Answer = Callable[[str, int], int | None]
"""By topic and partition: the error code of a Produce, or None for no answer at all."""


class Row(NamedTuple):
    """One record that came."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass
class FakeBroker:
    """One node that leads all partitions. `answer` says what becomes of records; it can be changed at any time."""

    topics: dict[str, int] = field(default_factory=lambda: {"orders": 1})
    answer: Answer = lambda _topic, _partition: 0

    def __post_init__(self) -> None:
        self.offsets: dict[tuple[str, int], int] = {}
        self.produced: list[tuple[str, int, int]] = []
        """(topic, partition, records) of each batch that came."""
        self.rows: list[Row] = []
        """The records of these."""
        self._arrived = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def settings(self) -> dict[str, str]:
        """What a client needs to find it."""
        return {"bootstrap.servers": f"127.0.0.1:{self._port}"}

    def wait_for_batches(self, count: int) -> None:
        """Until so many have come."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.produced) >= count, 30.0), self.produced

    def go_away(self) -> None:
        """Ends all connections, and refuses new ones."""
        for each in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        except OSError:
            return

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                while head := stream.read(4):
                    request = Reader(stream.read(struct.unpack(">i", head)[0]))
                    api, version, correlation = request.take(">hhi")
                    request.string()
                    body = self._reply(api, version, request)
                    if body is not None:
                        connection.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)
        except (OSError, ValueError):
            return  # one side has gone

    def _reply(self, api: int, version: int, request: Reader) -> bytes | None:
        if api == API_VERSIONS:
            flexible = b"\0" if version >= 3 else b""
            count = bytes([len(SPOKEN) + 1]) if version >= 3 else struct.pack(">i", len(SPOKEN))
            apis = b"".join(struct.pack(">hhh", *spoken) + flexible for spoken in SPOKEN)
            return struct.pack(">h", 0) + count + apis + struct.pack(">i", 0) + flexible
        if api == METADATA:
            names = [request.string() for _ in range(request.take(">i")[0])]
            node = struct.pack(">iii", 0, 1, 7) + string("127.0.0.1") + struct.pack(">ih", self._port, -1)
            return node + struct.pack(">hii", -1, 7, len(names)) + b"".join(self._topic(name) for name in names)
        if api == INIT_PRODUCER_ID:
            return b"\0" + struct.pack(">ihqh", 0, 0, 4000, 0) + b"\0"  # flexible: tags, in the header, too
        return self._produce(request)

    def _topic(self, name: str) -> bytes:
        count = self.topics.get(name, 0)
        partition = [struct.pack(">hiiiiiiii", 0, index, 7, 0, 1, 7, 1, 7, 0) for index in range(count)]
        error = 0 if name in self.topics else UNKNOWN_TOPIC
        return struct.pack(">h", error) + string(name) + struct.pack(">?i", False, count) + b"".join(partition)

    def _produce(self, request: Reader) -> bytes | None:
        request.string()
        acks, _timeout, topics = request.take(">hii")
        answered, silent = b"", acks == 0
        for _ in range(topics):
            name = request.string()
            (partitions,) = request.take(">i")
            answered += string(name) + struct.pack(">i", partitions)
            for _ in range(partitions):
                index, size = request.take(">ii")
                batch = request.bytes(size)
                (records,) = struct.unpack_from(">i", batch, 57)
                error = self.answer(name, index)
                offset = self.offsets.get((name, index), 0)
                if error == 0:
                    self.offsets[name, index] = offset + records
                with self._arrived:
                    self.produced.append((name, index, records))
                    self.rows += [
                        Row(index, one.key, one.value, one.timestamp, one.headers)
                        for one in _native._testing_decode(batch, name, index)
                    ]
                    self._arrived.notify_all()
                silent = silent or error is None
                answered += struct.pack(">ihqq", index, error or 0, -1 if error else offset, -1)
        return None if silent else struct.pack(">i", topics) + answered + struct.pack(">i", 0)


class Reader:
    """A request's body."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def take(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.bytes(struct.calcsize(layout)))

    def string(self) -> str:
        return self.bytes(max(0, self.take(">h")[0])).decode()


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
