"""A thousand clients that send garbage, half requests and huge sizes, or read no responses: memory stays bounded, and
other clients are served.
"""

from __future__ import annotations

import random
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.kafka.admin import QUIET
from tests.kafka.embedded import EmbeddedCluster

pytestmark = pytest.mark.kafka
CONNECTIONS = 1000
MIB = 1 << 20
# What all connections may hold together by `Limits::held_bytes`, and room for the rest of the process.
CAP = (512 + 256) * MIB
SLOW_READERS = 100
TOPIC_BYTES = 24 * MIB


@contextmanager
def many_files() -> Iterator[None]:
    """A limit of open files that a thousand sockets fit in."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 4096 else max(soft, 4096), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def peak_memory(cluster: EmbeddedCluster) -> int:
    """The peak of the process's resident memory in bytes."""
    assert cluster.process is not None
    status = Path(f"/proc/{cluster.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def connect(cluster: EmbeddedCluster, stack: ExitStack) -> socket.socket:
    port = cluster.nodes[1].port
    connection = stack.enter_context(socket.create_connection((port.host, port.number), timeout=30.0))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return connection


def request(api: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", api, version, 7, 1) + b"x"
    return struct.pack(">i", len(head) + len(body)) + head + body


def hostile_bytes(number: int, chance: random.Random) -> bytes:
    kind = number % 5
    if kind == 0:
        return chance.randbytes(1000)
    if kind == 1:  # a half request, of which a whole megabyte comes
        return struct.pack(">i", 64 * MIB) + bytes(MIB)
    if kind == 2:
        return struct.pack(">i", chance.choice([-1, 0x7FFFFFFF, 101 * MIB, 0]))
    if kind == 3:  # a header that is right, before any body
        return request(chance.randrange(80), chance.randrange(15), chance.randbytes(chance.randrange(300)))
    # Counts that promise far more than comes.
    return request(chance.choice([0, 1, 3, 8, 9, 11, 19]), 4, b"\x7f\xff\xff\xff" * 20)


def send(connection: socket.socket, data: bytes) -> None:
    # The broker may close the connection before it has read everything.
    with suppress(ConnectionError):
        connection.sendall(data)


def write(cluster: EmbeddedCluster, topic: str, count: int, size: int) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    for _ in range(count):
        producer.produce(topic, bytes(size), on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60.0) == 0
    assert failures == [None] * count


def test_memory_stays_bounded_and_others_are_served(topic: str) -> None:
    chance = random.Random(7)
    with EmbeddedCluster() as cluster, many_files(), ExitStack() as stack:
        cluster.create_topic(topic)
        for number in range(CONNECTIONS):
            send(connect(cluster, stack), hostile_bytes(number, chance))
        write(cluster, topic, 10, 100)
        assert cluster.admin.end_offsets(topic) == {0: 10}
        assert peak_memory(cluster) < CAP
        assert "panic" not in cluster.log(1)


def test_readers_that_do_not_read_hold_bounded_memory(topic: str) -> None:
    with EmbeddedCluster() as cluster, ExitStack() as stack:
        cluster.create_topic(topic)
        write(cluster, topic, TOPIC_BYTES // 900_000, 900_000)
        name = topic.encode()
        body = struct.pack(f">iiiibih{len(name)}siiqi", -1, 0, 1, 1 << 30, 0, 1, len(name), name, 1, 0, 0, 1 << 30)
        for _ in range(SLOW_READERS):
            send(connect(cluster, stack), request(1, 4, body) * 3)
        write(cluster, topic, 10, 100)
        assert cluster.admin.end_offsets(topic) == {0: TOPIC_BYTES // 900_000 + 10}
        # Unbounded, the responses would take more than 2 GB.
        assert peak_memory(cluster) < CAP + 2 * TOPIC_BYTES
        assert "is closed: all clients together" in cluster.log(1)
