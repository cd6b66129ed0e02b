"""Wire format of values and keys with a Schema Registry.

| where | bytes |
|---|---|
| prefix | 0, then the schema's id (4 bytes, big endian); or 1, then its GUID (16 bytes); the data follows |
| header | the same bytes in the record header `__value_schema_id` or `__key_schema_id`; the value is the data alone |

Protobuf adds the message's path in its file to either: a count and that many indexes, as zigzag varints. A single zero
stands for the first message.
"""

import struct
from collections.abc import Iterable, Sequence
from uuid import UUID

from grete._plural import counted
from grete.errors import ConfigError

_ID_PREFIX = struct.Struct(">BI")
ID_PREFIX_SIZE = _ID_PREFIX.size
"""Bytes before the data where the schema is named by its id."""
_ID_MAGIC = 0
_GUID_MAGIC = 1
_GUID_SIZE = 17

SchemaId = int | UUID
"""Identity of a schema in a record: its id, or its GUID."""

HEADERS = {"value": "__value_schema_id", "key": "__key_schema_id"}
"""Record headers that hold the schema's GUID, by the part of the record."""


def check_part(part: str) -> str:
    """Returns the part of a record, "value" or "key". Raises ConfigError."""
    if part not in HEADERS:
        raise ConfigError(f'part={part!r}: a record has the parts "value" and "key"', setting="part")
    return part


def id_prefix(schema_id: int) -> bytes:
    """Returns the five bytes before the data."""
    return _ID_PREFIX.pack(_ID_MAGIC, schema_id)


def guid_header(guid: str) -> bytes:
    """Returns the 17 bytes of the record header."""
    return bytes((_GUID_MAGIC,)) + UUID(guid).bytes


def strip_prefix(value: bytes, part: str = "value") -> tuple[SchemaId, bytes]:
    """Returns the schema's identity and the data. Raises ValueError if there is no valid prefix."""
    if len(value) >= _ID_PREFIX.size and value[0] == _ID_MAGIC:
        return _ID_PREFIX.unpack_from(value)[1], value[_ID_PREFIX.size :]
    if len(value) >= _GUID_SIZE and value[0] == _GUID_MAGIC:
        return UUID(bytes=bytes(value[1:_GUID_SIZE])), value[_GUID_SIZE:]
    begins = f"begins with byte {value[0]}" if value else "is empty"
    if value and value[0] in (_ID_MAGIC, _GUID_MAGIC):
        begins = f"has {counted(len(value), 'byte')} only"
    raise ValueError(
        f"the {part} {begins}: a {part} with a schema registry begins with byte 0 and four bytes of schema id; "
        "was it written without one?"
    )


def find_header(headers: Iterable[tuple[str, bytes | None]], part: str) -> bytes | None:
    """Returns the header that identifies the schema of a part; None: the identity is in the value's prefix."""
    name = HEADERS[part]
    return next((value for header, value in headers if header == name and value is not None), None)


def encode_path(path: Sequence[int]) -> bytes:
    """Returns the bytes of a Protobuf message's path: which message of the file, which nested one in it, ..."""
    if list(path) == [0]:
        return b"\x00"
    return b"".join(_encode_varint(number) for number in (len(path), *path))


def read_path(data: bytes) -> tuple[tuple[int, ...], int]:
    """Returns the message's path in its file (which message, which nested one in it, ...), and where the data begins.

    Raises ValueError.
    """
    count, at = _varint(data, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= len(data):
        raise ValueError(f"a message path of {count} steps in {len(data)} bytes")
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise ValueError("a message path with a negative step")
        path.append(index)
    return tuple(path), at


def _encode_varint(number: int) -> bytes:
    left = number << 1  # zigzag, of numbers that are not negative
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            raise ValueError("the value ends within its message path")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
    raise ValueError("a number in the message path is longer than 32 bits")
