"""Payloads: values of `payload=` on a route, which decode the value of a record to an object.

A type (a msgspec Struct, a pydantic model, a dataclass, a TypedDict, a NamedTuple, `dict[str, int]`, ...) is read from
JSON and checked; `bytes` is the value itself, `str` its UTF-8 text. `"json"` takes any JSON. A function gets the bytes
and decodes them. `Avro`, `Protobuf` and `JsonSchema` read and write values and keys with a Schema Registry.

`message.payload` decodes on first access, once; a tombstone's payload is None. A decoder's exception becomes a
`grete.DecodeError` that names the record, and is handled like any failure; `grete.RetryLater` is not wrapped.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from grete.errors import ConfigError
from grete.payloads.encode import Encoder, SupportsEncoder, encoder_for
from grete.payloads.json_types import Decoder, check_match, decoder_for, is_type, json, output_type_of

if TYPE_CHECKING:
    from grete.payloads.avro import Avro
    from grete.payloads.avro_types.derive import AvroType
    from grete.payloads.jsonschema import JsonSchema
    from grete.payloads.protobuf import Protobuf
    from grete.payloads.schema_registry import ClientCredentials, Reference, Registry

__all__ = [
    "Avro",
    "AvroType",
    "ClientCredentials",
    "Decoder",
    "Encoder",
    "JsonSchema",
    "Protobuf",
    "Reference",
    "Registry",
    "SupportsDecoder",
    "SupportsEncoder",
    "by_topic",
    "decoder_of",
    "encoder_for",
    "json",
]

_HINT = 'payload is a type, "json", a function of the bytes, or a format like grete.payloads.Avro(...)'
_LAZY = {
    "Avro": "avro",
    "AvroType": "avro_types.derive",
    "ClientCredentials": "schema_registry",
    "JsonSchema": "jsonschema",
    "Protobuf": "protobuf",
    "Reference": "schema_registry",
    "Registry": "schema_registry",
}


def __getattr__(name: str) -> Any:
    """Imports the formats with a registry, and their libraries, on first access."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"grete.payloads.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


@runtime_checkable
class SupportsDecoder(Protocol):
    """Format that depends on the topic. Its optional attribute `output_type` is the type that it decodes to."""

    def decoder(self, topic: str) -> Decoder:
        """Returns the decoder for the values of a topic. Called at declaration, so it opens nothing. The decoder runs
        in many threads. If it has a method `with_headers(value, headers)`, that is called for records with headers.
        """


def decoder_of(payload: object, topic: str, part: str = "value") -> Decoder:
    """Returns the decoder of a topic's values or keys. Raises ConfigError if there is none."""
    if isinstance(payload, SupportsDecoder) and not isinstance(payload, type):
        if part == "value":
            return payload.decoder(topic)
        if "part" not in inspect.signature(payload.decoder).parameters:
            raise ConfigError(
                f"{type(payload).__name__} reads values only: give the keys a type, or take them as bytes",
                setting="key",
            )
        return payload.decoder(topic, part=part)  # type: ignore[call-arg]
    return _decoder(payload)


def by_topic(
    payload: object, expected_type: Any, topics: Iterable[str], source: str = "payload="
) -> Mapping[str, Decoder] | None:
    """Returns a decoder for each topic, from `payload=` and the type in the handler's annotation (None: it has none).
    `source`: where the payload was said, for errors.

    None if values are not decoded. Raises ConfigError if they contradict each other, or if a library is missing.
    """
    if payload is None and expected_type is None:
        return None
    if payload is None:
        return dict.fromkeys(topics, decoder_for(expected_type))
    if expected_type is not None:
        check_match(payload, output_type_of(payload), expected_type, source)
    if isinstance(payload, SupportsDecoder) and not isinstance(payload, type):
        return {topic: payload.decoder(topic) for topic in topics}
    return dict.fromkeys(topics, _decoder(payload))


def _decoder(payload: object) -> Decoder:
    if isinstance(payload, str):
        if payload == "json":
            return decoder_for(Any)
        raise ConfigError(
            f'payload={payload!r}: the only format with a short name is "json"; {_HINT}', setting="payload"
        )
    if payload is json:
        return decoder_for(Any)
    if is_type(payload):
        return decoder_for(payload)
    if callable(payload):
        return payload
    raise ConfigError(f"payload={payload!r}: {_HINT}", setting="payload")
