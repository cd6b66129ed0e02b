"""Questions in Kafka's protocol, over a plain socket: does a broker answer, whom does it know, who should lead?"""

from __future__ import annotations

import socket
import struct

FETCH = 1
API_VERSIONS = 18
METADATA = 3
ELECT_LEADERS = 43
CLIENT_ID = b"harness"
FETCHED = 64 << 20


class ProbeError(Exception):
    """The peer did not answer as a Kafka broker does."""


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ProbeError(f"closed after {len(parts)} of {count} bytes")
        parts += part
    return bytes(parts)


def _ask(host: str, port: int, api: int, version: int, body: bytes, timeout: float, largest: int = 1 << 20) -> bytes:
    head = struct.pack(">hhih", api, version, 7, len(CLIENT_ID)) + CLIENT_ID
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        if not 4 <= size <= largest:
            raise ProbeError(f"a frame of {size} bytes")
        answer = _exactly(connection, size)
    (correlation,) = struct.unpack_from(">i", answer)
    if correlation != 7:
        raise ProbeError(f"correlation id {correlation} for 7")
    return answer[4:]


def api_versions(host: str, port: int, timeout: float = 2.0) -> dict[int, tuple[int, int]]:
    """ApiVersions v0: what the broker speaks, as {api key: (lowest, highest)}."""
    answer = _ask(host, port, API_VERSIONS, 0, b"", timeout)
    error, count = struct.unpack_from(">hi", answer)
    if error:
        raise ProbeError(f"ApiVersions answered error {error}")
    rows = struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])
    return {api: (lowest, highest) for api, lowest, highest in rows}


def brokers(host: str, port: int, timeout: float = 2.0) -> set[int]:
    """Metadata v1 without topics: ids of the brokers that are registered and not fenced."""
    answer = _ask(host, port, METADATA, 1, struct.pack(">i", 0), timeout)
    (count,) = struct.unpack_from(">i", answer)
    at, found = 4, set()
    for _ in range(count):
        node, length = struct.unpack_from(">ih", answer, at)
        at += 6 + length + 4
        (rack,) = struct.unpack_from(">h", answer, at)
        at += 2 + max(rack, 0)
        found.add(node)
    return found


def elect_preferred(host: str, port: int, topic: str, partitions: list[int], timeout: float = 10.0) -> None:
    """ElectLeaders v0: each partition shall be led by its first replica again; one that is, or cannot be, stays.

    confluent-kafka 2.16 has this call, too, but it raises SystemError whatever it is given.
    """
    name = topic.encode()
    body = struct.pack(f">ih{len(name)}si", 1, len(name), name, len(partitions))
    body += struct.pack(f">{len(partitions)}ii", *partitions, int(timeout * 1000))
    _ask(host, port, ELECT_LEADERS, 0, body, timeout + 2.0)


def fetch(host: str, port: int, topic: str, partition: int, offset: int, timeout: float = 10.0) -> tuple[int, bytes]:
    """Fetch v4 from the leader, uncommitted: the high watermark, and batches from the one with `offset` on.

    The last batch may be cut off.
    """
    name = topic.encode()
    body = struct.pack(
        f">iiiibih{len(name)}siiqi", -1, 0, 1, FETCHED, 0, 1, len(name), name, 1, partition, offset, FETCHED
    )
    answer = _ask(host, port, FETCH, 4, body, timeout, largest=1 << 30)
    # Behind throttle time, one topic with its name, and one partition with its number.
    at = 4 + 4 + 2 + len(name) + 4 + 4
    error, watermark, _, aborted = struct.unpack_from(">hqqi", answer, at)
    if error:
        raise ProbeError(f"Fetch of {topic}-{partition} from {offset} answered error {error}")
    at += 22 + 16 * max(aborted, 0)
    (size,) = struct.unpack_from(">i", answer, at)
    return watermark, answer[at + 4 : at + 4 + max(size, 0)]
