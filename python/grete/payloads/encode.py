"""Encoders: the way back from a value to the bytes of a record.

An encoder checks the type of what it gets: a record of another type is an `EncodeError`, never a surprise for a reader.
What is inside of a value is not checked again, because msgspec, pydantic and type checkers have done so.
"""

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from grete.errors import ConfigError, EncodeError
from grete.payloads.annotations import type_name, unwrap_optional
from grete.payloads.json_types import is_type, json
from grete.payloads.json_writer import json_bytes, json_writer, pydantic_writer

Encoder: TypeAlias = Callable[[Any], bytes | None]
Part: TypeAlias = Literal["value", "key"]

_HINT = 'give a type, "json", a function that returns bytes, or a format like grete.payloads.Avro(...)'
_BYTES = (bytes, bytearray, memoryview)


@runtime_checkable
class SupportsEncoder(Protocol):
    """Format that can write. An encoder may have an attribute `headers`: a function that returns the headers for each
    record, for a format that puts its schema id there.
    """

    def encoder(self, topic: str, part: Part = "value") -> Encoder:
        """Returns the encoder for the values or keys of a topic. Called at declaration, so it opens nothing. The
        encoder runs in many threads.
        """


def encoder_for(spec: Any, topic: str, part: Part = "value") -> Encoder:
    """Returns the encoder of a type or format; `spec` None: each value is encoded by its own type.

    Raises ConfigError if the type cannot be written, or if a library is missing. The encoder raises EncodeError. None
    is encoded to None: a tombstone, or no key.
    """
    if spec is None or spec is Any or spec is json:
        return _guard(_own_form, topic, part)
    if isinstance(spec, str):
        if spec == "json":
            return _guard(json_bytes, topic, part)
        raise ConfigError(f'{part}={spec!r}: the only format with a short name is "json"; {_HINT}', setting=part)
    if isinstance(spec, SupportsEncoder) and not isinstance(spec, type):
        return spec.encoder(topic, part)
    if is_type(spec) or isinstance(spec, types.UnionType):
        return _of_type(spec, topic, part)
    if callable(spec):
        return _guard(spec, topic, part)
    raise ConfigError(f"{part}={spec!r} cannot be written: {_HINT}", setting=part)


def writer_of(encoder: Encoder) -> Callable[[Any], bytes | None]:
    """Returns the function within an encoder that writes an object of exactly the declared class, and that raises any
    error; without one, the encoder.
    """
    writer: Callable[[Any], bytes | None] = getattr(encoder, "writer", encoder)
    return writer


def headers_of(encoder: Encoder) -> Callable[[], Sequence[tuple[str, bytes]]] | None:
    """Returns the function that makes an encoder's headers; None: it has none."""
    headers: Callable[[], Sequence[tuple[str, bytes]]] | None = getattr(encoder, "headers", None)
    return headers


def _guard(write: Callable[[Any], Any], topic: str, part: Part) -> Encoder:
    """Returns an encoder that passes None, and wraps errors."""

    def encode(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            encoded = write(value)
        except Exception as error:
            raise _failed(value, topic, part, error) from error
        if encoded.__class__ is not bytes and encoded is not None:
            if isinstance(encoded, _BYTES):
                return bytes(encoded)
            raise EncodeError(
                f'the encoder of {part}s of topic "{topic}" returned {type(encoded).__name__}: it returns bytes',
                topic=topic,
                part=part,
                type=type(value),
            )
        return encoded

    return encode


def _of_type(wanted: Any, topic: str, part: Part) -> Encoder:
    """Returns the encoder of a type, which refuses other types."""
    plain = unwrap_optional(wanted)
    kinds = _classes(plain)
    write = _writer(plain, wanted, kinds, part)
    first = kinds[0] if len(kinds) == 1 else None

    def encode(value: Any) -> bytes | None:
        if value.__class__ is not first and not isinstance(value, kinds):
            if value is None:
                return None
            raise EncodeError(
                f'a {part} of topic "{topic}" is {type_name(wanted)}, not {type_name(type(value))}: '
                f"produce a {type_name(wanted)}, or declare the topic with {part}={type_name(type(value))}",
                topic=topic,
                part=part,
                type=type(value),
            )
        try:
            return write(value)
        except Exception as error:
            raise _failed(value, topic, part, error) from error

    vars(encode)["writer"] = write
    return encode


def _classes(plain: Any) -> tuple[type, ...]:
    """Returns the classes of a type's values."""
    if typing.get_origin(plain) in (typing.Union, types.UnionType):
        return tuple(kind for one in typing.get_args(plain) for kind in _classes(unwrap_optional(one)))
    if typing.get_origin(plain) is Literal:
        return tuple({type(one) for one in typing.get_args(plain)})
    origin = typing.get_origin(plain) or plain
    if typing.is_typeddict(origin):
        return (dict,)
    if origin is bytes:
        return _BYTES
    if origin is Any:
        return (object,)
    if origin is float:
        return (float, int)
    if hasattr(origin, "__supertype__"):
        return _classes(origin.__supertype__)
    if isinstance(origin, type) and origin is not type:
        return (origin,)
    raise ConfigError(f"{type_name(plain)} is no type that can be written: {_HINT}")


def _writer(plain: Any, wanted: Any, kinds: tuple[type, ...], part: Part) -> Callable[[Any], bytes]:
    if kinds == _BYTES:
        return bytes
    if kinds == (str,):
        return str.encode
    if object in kinds and plain is object:
        raise ConfigError(f"nothing is encoded from object: {_HINT}", setting=part)
    if len(kinds) > 1 and any(kind in (str, *_BYTES) for kind in kinds):
        raise ConfigError(
            f"{type_name(wanted)} mixes text or bytes with other types, and a reader could not tell them apart: "
            f"name one type, or give a function that returns bytes",
            setting=part,
        )
    if len(kinds) == 1:
        return _class_writer(kinds[0])
    writers = {kind: _class_writer(kind) for kind in kinds}

    def write(value: Any) -> bytes:
        found = writers.get(type(value)) or next(one for kind, one in writers.items() if isinstance(value, kind))
        return found(value)

    return write


def _class_writer(kind: type) -> Callable[[Any], bytes]:
    """Returns a function that writes objects of a class."""
    if hasattr(kind, "DESCRIPTOR") and hasattr(kind, "SerializeToString"):
        return _protobuf_bytes
    if hasattr(kind, "__pydantic_serializer__"):
        return pydantic_writer(kind)
    return json_writer(kind)


def _protobuf_bytes(value: Any) -> bytes:
    serialized: bytes = value.SerializeToString()
    return serialized


_writers: dict[type, Callable[[Any], bytes]] = {bytes: bytes, bytearray: bytes, memoryview: bytes, str: str.encode}


def _own_form(value: Any) -> bytes:
    """Encodes a value by its own type: bytes as they are, text as UTF-8, others as JSON or Protobuf."""
    kind = type(value)
    write = _writers.get(kind)
    if write is None:
        if inspect.isgenerator(value) or inspect.isawaitable(value):
            raise TypeError(f"a {kind.__name__} is no value")
        write = _writers[kind] = str.encode if issubclass(kind, str) else _class_writer(kind)
    return write(value)


def _failed(value: Any, topic: str, part: Part, error: Exception) -> EncodeError:
    return EncodeError(
        f'a {part} of topic "{topic}" cannot be encoded: {type_name(type(value))}: {error}',
        topic=topic,
        part=part,
        type=type(value),
        field=getattr(error, "field", None),
    )
