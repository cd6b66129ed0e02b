"""Protobuf with a Schema Registry, decoded by the classes that protoc makes."""

import base64
import binascii
from typing import TYPE_CHECKING, Any

from grete.errors import ConfigError
from grete.payloads.registry import Once, SchemaSource, needs, source_of, unframe
from grete.payloads.typed import Decoder

if TYPE_CHECKING:
    from google.protobuf.message import Message


class Protobuf:
    """Values that a Protobuf serialiser with a Schema Registry wrote: `grete.payloads.Protobuf(url, orders_pb2.Order)`.

    A payload is a message of that class. The registry is asked once for each schema whether its message has the same
    full name: the bytes alone would not tell. (A registry that does not know `format=serialized` cannot answer that;
    then the bytes are believed.)

    Args:
        registry: the registry's address, or a `grete.payloads.Registry`.
        message: the class that protoc made.
    """

    def __init__(self, registry: str | SchemaSource, message: "type[Message]") -> None:
        needs("google.protobuf", "protobuf", "Protobuf")
        from google.protobuf.message import Message

        from grete import _place

        if not isinstance(message, type) or not issubclass(message, Message):
            raise ConfigError(
                f"payloads.Protobuf takes the class that protoc made of a message, not {message!r}",
                setting="payload",
                location=_place.caller(),
            )
        self.gives: Any = message
        self._message = message
        self._registry = source_of(registry)
        self._names = Once(self._name)

    def decoder(self, topic: str) -> Decoder:  # noqa: ARG002 (the schema's id says it all)
        """The same for all topics."""
        return self._decode

    def _decode(self, value: bytes) -> "Message":
        schema_id, data = unframe(value)
        path, start = read_path(data)
        name = self._names((schema_id, path))
        expected = self._message.DESCRIPTOR.full_name
        if name and name != expected:
            raise ValueError(f"the value is a {name} (schema {schema_id}), not a {expected}")
        return self._message.FromString(data[start:])

    def _name(self, key: tuple[int, tuple[int, ...]]) -> str:
        """The full name of the message at that path of the schema; empty if the registry cannot say."""
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError

        schema_id, path = key
        schema = self._registry.schema(schema_id, "serialized")
        if schema.kind != "PROTOBUF":
            raise ValueError(f"schema {schema_id} is {schema.kind}, not Protobuf")
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
        except (binascii.Error, DecodeError):
            return ""  # the text of a .proto file
        names = [file.package] if file.package else []
        messages = file.message_type
        for index in path:
            if index >= len(messages):
                raise ValueError(f"schema {schema_id} has no message at {list(path)}")
            names.append(messages[index].name)
            messages = messages[index].nested_type
        return ".".join(names)


def read_path(data: bytes) -> tuple[tuple[int, ...], int]:
    """The message's path in its file (which message, which nested one in it, ...), and where the data begins.

    A count and that many indexes, as zigzag varints; a single zero stands for the first message.
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
