"""What an App makes of source records: each output says of which record it was made, and goes to the same partition.

Record i of a source topic is at offset i // partitions of partition i % partitions, as `tests.kafka.fill` writes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from tests.kafka import fill
from tests.kafka.load import value_of

SOURCE_SIZE = 64
KEYS = 40
# Some outputs are larger than the others: a topic may refuse those alone.
LARGE_EVERY = 7
SMALL_SIZE = 12
LARGE_SIZE = 500
_FILLER = b"." * (LARGE_SIZE - SMALL_SIZE)


def transformed(value: bytes) -> bytes:
    """The index of the record, a checksum of its value, and a filler for every seventh one."""
    head = value[:8] + zlib.crc32(value).to_bytes(4)
    return head + _FILLER if int.from_bytes(value[:8]) % LARGE_EVERY == LARGE_EVERY // 2 else head


def output_of(index: int) -> bytes:
    """What record `index` becomes."""
    return transformed(value_of(index, SOURCE_SIZE))


def key_of(partitions: int) -> Callable[[int], bytes]:
    """Keys of records: none is in two partitions."""
    return lambda index: b"%d-%d" % (index % partitions, index // partitions * 7 % KEYS)


def fill_source(servers: str, topic: str, count: int, partitions: int) -> None:
    """`count` records in `partitions`, with keys."""
    fill(servers, topic, count, partitions=partitions, value_size=SOURCE_SIZE, key=key_of(partitions))
