"""Records that tests make, and their encoding."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from grete import _native, payloads
from grete._native import Message, Messages
from grete.errors import GreteError
from grete.payloads.json_types import installed

Bytes: TypeAlias = bytes | bytearray | memoryview
Key: TypeAlias = Bytes | str | None
Headers: TypeAlias = Mapping[str, Bytes | str | None] | Sequence[tuple[str, Bytes | str | None]]
Encode: TypeAlias = Callable[[Any], bytes | None]

WireHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]
WireRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, WireHeaders]


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A record that a test gives to `consume`, or one that handlers have produced.

    Attributes:
        value: bytes, or what `consume` encodes: text, JSON, a msgspec Struct, a pydantic model, a dataclass, a Protobuf
            message. None: a tombstone. A produced record has bytes or None.
        key: bytes or text; None: no key.
        headers: pairs of name and value, or a dict.
        timestamp: milliseconds since 1970, or a datetime. None: the time at which the run starts.
        topic: None: the topic of the run.
        partition: None: the partition of the run.
        offset: None: the one after the record before.
    """

    value: Any
    key: Key = None
    headers: Headers = ()
    timestamp: int | datetime | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    @classmethod
    def of(cls, message: Message) -> "Record":
        """Returns a copy of the message."""
        return cls(
            message.value,
            message.key,
            message.headers,
            message.timestamp,
            message.topic,
            message.partition,
            message.offset,
        )


def message(
    value: Any = None,
    *,
    key: Key = None,
    headers: Headers = (),
    topic: str = "test",
    partition: int = 0,
    offset: int = 0,
    timestamp: int | datetime | None = None,
    payload: object = None,
    encode: Encode | None = None,
) -> Message:
    """Returns a `grete.Message` for a handler that a test calls itself.

    A value that is no bytes is encoded as in `consume`, by `encode` if that is given, and is the `payload` of the
    message. With `payload=` (see `App.consumer`) the message decodes its payload from the value, as on a route.
    `timestamp` None: now.
    """
    record = Record(value, key, headers, timestamp, offset=offset)
    return messages([record], topic=topic, partition=partition, payload=payload, encode=encode)[0]


def messages(
    values: Iterable[Any],
    *,
    key: Key = None,
    headers: Headers = (),
    topic: str = "test",
    partition: int = 0,
    offset: int = 0,
    timestamp: int | datetime | None = None,
    payload: object = None,
    encode: Encode | None = None,
) -> Messages:
    """Returns `grete.Messages`, a batch for a handler that a test calls itself. See `message`.

    `values` are values or `Record` objects. The first one has `offset`, and the others follow. `key`, `headers` and
    `timestamp` are for records that have none of their own.
    """
    records = place_records(values, Record(None, key, headers, timestamp), topic, partition, offset)
    if not records:
        return Messages.empty()
    decoders = payloads.by_topic(payload, None, [topic])
    decoder = None if decoders is None else decoders[topic]
    preset = None if decoder is not None else [_payload(record.value) for record in records]
    wire = encode_records(records, round(time.time() * 1000), encode)
    return _native._testing_decode(  # noqa: SLF001
        _native._testing_encode(wire),  # noqa: SLF001
        topic,
        partition,
        wire[-1][0] + 1,
        decoder,
        preset if preset is not None and any(one is not None for one in preset) else None,
    )


def _payload(value: Any) -> Any:
    return None if isinstance(value, (bytes, bytearray, memoryview)) else value


def place_records(
    values: Iterable[Any], defaults: Record, topic: str, partition: int | None, offset: int
) -> list[Record]:
    """Returns records with the topic, a partition and ascending offsets. `defaults`: key, headers and timestamp.

    `partition` None: that of the first record that has one, else 0.
    """
    if isinstance(values, (str, bytes, bytearray, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"records come as a list, like [{values!r}], not as {type(values).__name__}")
    given = [value if isinstance(value, Record) else _to_record(value) for value in values]
    if partition is None:
        partition = next((record.partition for record in given if record.partition is not None), 0)
    placed: list[Record] = []
    next_offset = offset
    for record in given:
        _check_place(record, topic, partition, next_offset)
        at = next_offset if record.offset is None else record.offset
        placed.append(
            Record(
                record.value,
                defaults.key if record.key is None else record.key,
                record.headers or defaults.headers,
                defaults.timestamp if record.timestamp is None else record.timestamp,
                topic,
                partition,
                at,
            )
        )
        next_offset = at + 1
    return placed


def _to_record(value: Any) -> Record:
    return Record.of(value) if isinstance(value, Message) else Record(value)


def _check_place(record: Record, topic: str, partition: int, next_offset: int) -> None:
    if record.topic not in (None, topic):
        raise GreteError(f'a record of topic "{record.topic}" is among those of "{topic}": one run reads one topic')
    if record.partition not in (None, partition):
        raise GreteError(
            f"a record of partition {record.partition} is among those of partition {partition}: one run reads one "
            "partition; call consume for each"
        )
    if record.offset is not None and record.offset < next_offset:
        raise GreteError(
            f"offset {record.offset} comes where {next_offset} or a later one is due: offsets ascend; leave offset "
            "out of a Record to number records in their order"
        )


def encode_records(
    records: Iterable[Record], now_ms: int, encode: Encode | None = None, encode_key: Encode | None = None
) -> list[WireRecord]:
    """Encodes placed records. `now_ms`: timestamp of records that have none, in milliseconds since 1970. `encode_key`:
    for keys that are no bytes and no text.
    """
    return [
        (
            record.offset or 0,
            now_ms if record.timestamp is None else timestamp_ms(record.timestamp),
            key_bytes(record.key, encode_key),
            encode_value(record.value, encode),
            wire_headers(record.headers),
        )
        for record in records
    ]


def key_bytes(key: Any, encode_key: Encode | None) -> bytes | None:
    """Returns the key as bytes. `encode_key`: for keys that are no bytes and no text."""
    if encode_key is None or isinstance(key, (str, bytes, bytearray, memoryview)):
        return bytes_or_text(key, "key")
    return encode_key(key)


def encode_value(value: Any, encode: Encode | None = None) -> bytes | None:
    """Returns the value as bytes; None: a tombstone. Bytes are not encoded."""
    if value is None or isinstance(value, (bytes, bytearray, memoryview)):
        return None if value is None else bytes(value)
    if encode is not None:
        encoded = encode(value)
        if encoded is not None and not isinstance(encoded, bytes):
            raise TypeError(f"encode returned {type(encoded).__name__} for {value!r}: it returns bytes")
        return encoded
    if isinstance(value, str):
        return value.encode()
    return _encode_typed(value)


def _encode_typed(value: Any) -> bytes:
    kind = type(value)
    if hasattr(kind, "DESCRIPTOR") and hasattr(kind, "SerializeToString"):
        serialized: bytes = value.SerializeToString()
        return serialized
    if hasattr(kind, "__pydantic_serializer__"):
        if hasattr(kind, "model_dump_json"):
            return str(value.model_dump_json()).encode()
        import pydantic

        return pydantic.TypeAdapter(kind).dump_json(value)
    try:
        if installed("msgspec"):
            import msgspec

            return msgspec.json.encode(value)
        import json

        plain = dataclasses.asdict(value) if dataclasses.is_dataclass(kind) else value
        return json.dumps(plain, separators=(",", ":")).encode()
    except TypeError as error:
        raise TypeError(
            f"a value of type {kind.__name__} has no JSON form ({error}): give bytes, or encode= with a function that "
            "returns them"
        ) from error


def bytes_or_text(value: object, what: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"a {what} is bytes, text or None, not {type(value).__name__}")


def wire_headers(headers: Headers) -> WireHeaders:
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((_header_name(name), bytes_or_text(value, "header's value")) for name, value in pairs)


def _header_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a header is a str, not {type(name).__name__}")
    return name


def timestamp_ms(timestamp: int | datetime) -> int:
    return round(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp
