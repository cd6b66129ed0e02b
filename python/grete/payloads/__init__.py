"""What `payload=` on a route may be: how the value of a record becomes an object.

A type (a msgspec Struct, a pydantic model, a dataclass, a TypedDict, a NamedTuple, `dict[str, int]`, ...) is read from
JSON and checked; `bytes` is the value itself, `str` its UTF-8 text. `"json"` takes any JSON. A function of the bytes
decodes on its own. `Avro`, `Protobuf` and `JsonSchema` read what serialisers with a Schema Registry wrote.

Decoding happens when `message.payload` is looked at, once; a tombstone's payload is None. What a decoder raises becomes
a `grete.DecodeError` that names the record, and goes the way of any failure; `grete.RetryLater` stays what it is.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from grete.errors import ConfigError
from grete.payloads.typed import Decoder, check_match, for_type, is_type, json, result_of

if TYPE_CHECKING:
    from grete.payloads.avro import Avro
    from grete.payloads.jsonschema import JsonSchema
    from grete.payloads.protobuf import Protobuf
    from grete.payloads.registry import Registry

__all__ = ["Avro", "Decoder", "JsonSchema", "Protobuf", "Registry", "SupportsDecoder", "by_topic", "json"]

_ADVICE = 'payload is a type, "json", a function of the bytes, or a format like grete.payloads.Avro(...)'
_LAZY = {"Avro": "avro", "JsonSchema": "jsonschema", "Protobuf": "protobuf", "Registry": "registry"}


def __getattr__(name: str) -> Any:
    """The formats with a registry, and what they import, are there when somebody asks for them."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"grete.payloads.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


@runtime_checkable
class SupportsDecoder(Protocol):
    """A format that tells topics apart. Its attribute `gives`, if there, says what it decodes to."""

    def decoder(self, topic: str) -> Decoder:
        """Decodes the values of a topic. Called at declaration: it opens nothing. The decoder runs in many threads."""


def by_topic(payload: object, wants: Any, topics: Iterable[str]) -> Mapping[str, Decoder] | None:
    """A decoder for each topic, of `payload=` and the type in the handler's annotation (None: it has none).

    None if nothing is to be decoded. ConfigError if they contradict each other, or if a library is missing.
    """
    if payload is None and wants is None:
        return None
    if payload is None:
        return dict.fromkeys(topics, for_type(wants))
    if wants is not None:
        check_match(payload, result_of(payload), wants)
    if isinstance(payload, SupportsDecoder) and not isinstance(payload, type):
        return {topic: payload.decoder(topic) for topic in topics}
    return dict.fromkeys(topics, _decoder(payload))


def _decoder(payload: object) -> Decoder:
    if isinstance(payload, str):
        if payload == "json":
            return for_type(Any)
        raise ConfigError(
            f'payload={payload!r}: the only format with a short name is "json"; {_ADVICE}', setting="payload"
        )
    if payload is json:
        return for_type(Any)
    if is_type(payload):
        return for_type(payload)
    if callable(payload):
        return payload
    raise ConfigError(f"payload={payload!r}: {_ADVICE}", setting="payload")
