"""Record batches (magic 2) built by hand, as a producer would send them: the independent side of decode tests."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc32c_table()


def crc32c(data: bytes) -> int:
    """Castagnoli's, a byte at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(value: int) -> bytes:
    """Zigzag, as record fields are."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


@dataclass(frozen=True)
class Record:
    """What a test wants to read back."""

    offset: int
    value: bytes | None = b""
    key: bytes | None = None
    timestamp: int = 1_700_000_000_000
    headers: Sequence[tuple[str, bytes | None]] = field(default=())


def batch(records: Sequence[Record], *, attributes: int = 0, flip_crc: bool = False) -> bytes:
    """One uncompressed batch; offsets must ascend."""
    base, base_timestamp = records[0].offset, records[0].timestamp
    body = bytearray()
    for record in records:
        fields = bytearray(b"\0")
        fields += varint(record.timestamp - base_timestamp)
        fields += varint(record.offset - base)
        fields += _bytes(record.key) + _bytes(record.value)
        fields += varint(len(record.headers))
        for name, value in record.headers:
            encoded = name.encode()
            fields += varint(len(encoded)) + encoded + _bytes(value)
        body += varint(len(fields)) + fields
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        records[-1].offset - base,
        base_timestamp,
        max(record.timestamp for record in records),
        -1,
        -1,
        -1,
        len(records),
    ) + bytes(body)
    crc = crc32c(checked) ^ (1 if flip_crc else 0)
    return struct.pack(">qiibI", base, 4 + 1 + 4 + len(checked), 0, 2, crc) + checked
