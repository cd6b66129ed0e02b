"""Codecs for Avro schemas: Grete's own, and the conversion to classes around it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from grete import _native
from grete.payloads.avro_types.direct import plan

if TYPE_CHECKING:
    from grete._native import ArrowColumns, Messages


class Codec(Protocol):
    """Decoder and encoder of one schema. Many threads may use it at once."""

    def decode(self, data: bytes, start: int = 0, /) -> Any:
        """Decodes the bytes from `start` to their end. Raises ValueError for bytes that are no data of the schema."""

    def encode(self, value: Any, /) -> bytes:
        """Encodes a dict, or an object whose attributes are the fields. Raises ValueError if it does not fit."""


class _Converting:
    """Codec whose values are converted to a type that the native codec cannot make itself."""

    __slots__ = ("_convert", "_decode", "encode")

    def __init__(self, native: _native.AvroCodec, convert: Callable[[Any], Any]) -> None:
        self._decode = native.decode
        self._convert = convert
        self.encode = native.encode

    def decode(self, data: bytes, start: int = 0, /) -> Any:
        return self._convert(self._decode(data, start))


def compile_codec(
    writer: str,
    *,
    reader: str | None = None,
    references: Sequence[str] = (),
    into: Any = None,
    convert: Callable[[Any], Any] | None = None,
    prefix: bytes = b"",
) -> Codec:
    """Returns the codec of a schema.

    Args:
        writer: JSON text of the schema that the data is written with.
        reader: schema to read with; None: the writer's.
        references: schemas whose named types both use, each after those that it uses itself.
        into: type of the decoded values; None: dicts. A dataclass or msgspec Struct whose annotations are the schema's
            own types is made directly.
        convert: makes other types from dicts.
        prefix: put before each encoding, like the header with the schema's id.

    Raises ValueError for schemas that are not valid or do not match.
    """
    types = None if into is None else plan(reader if reader is not None else writer, references, into)
    native = _native.AvroCodec(writer, reader, references=list(references), types=types, prefix=prefix)
    return native if convert is None or types is not None else _Converting(native, convert)


def columns(messages: "Messages", codec: _native.AvroCodec | Callable[[int], _native.AvroCodec]) -> "ArrowColumns":
    """Decodes the values of records into Arrow columns, one row for each record. A tombstone is a row of nulls.

    Args:
        messages: records of one partition.
        codec: codec of values without a header, or a function that returns that of a schema id.

    Raises DecodeError with the record that does not decode, and ValueError for a schema that Arrow has no types for.
    """
    return _native.avro_columns(messages, codec)
