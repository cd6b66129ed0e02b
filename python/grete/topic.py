"""Topics with their types, and records to write to them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from grete._config.parsers import positive_int, topic_name
from grete.errors import ConfigError
from grete.payloads import Decoder, decoder_of
from grete.payloads.encode import Encoder, Part, encoder_for, headers_of
from grete.payloads.json_types import is_type

K = TypeVar("K")
V = TypeVar("V")


class _AsInput:
    """Type of `AS_INPUT`."""

    def __repr__(self) -> str:
        return "AS_INPUT"


# Key of a `Record` that says nothing about its key.
AS_INPUT: Any = _AsInput()

Headers = Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]]


@dataclasses.dataclass(frozen=True, slots=True)
class Record(Generic[V]):
    """A value that a handler returns, or one of those for `produce_many`, with its own key, headers or partition.

    Attributes:
        value: what the topic declares; None: a tombstone.
        key: without it, a record that a handler returns has the key of the record that it was given. None: no key.
        headers: pairs of name and value, or a dict.
        partition: number of the partition; None: chosen by the key.
        timestamp: milliseconds since 1970, or a datetime; None: now.
    """

    value: V | None
    key: Any = AS_INPUT
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | datetime | None = None


class Topic(Generic[K, V]):
    """A topic, declared once with `App.topic`: for reading, writing, creating and testing.

    A topic can be given wherever a topic's name can. A producer that gets it encodes keys and values by their types.

    Attributes:
        name: Kafka's name of the topic.
        key: type or format of the keys; None: bytes.
        value: type or format of the values; None: bytes, or what has a form of its own.
        partitions: number of partitions to create; None: the broker's default.
        replication: number of replicas to create; None: the broker's default.
        config: Kafka's settings of the topic, by their dotted names.
        location: "file:line" of the declaration.
    """

    __slots__ = (
        "__weakref__",
        "_has_headers",
        "config",
        "encode_key",
        "encode_value",
        "key",
        "location",
        "name",
        "partitions",
        "replication",
        "value",
    )

    encode_key: Encoder
    """Returns the bytes of a key; raises EncodeError."""
    encode_value: Encoder
    """Returns the bytes of a value; raises EncodeError."""

    def __init__(
        self,
        name: str,
        *,
        key: Any = None,
        value: Any = None,
        partitions: int | None = None,
        replication: int | None = None,
        config: Mapping[str, str | int | float | bool] | None = None,
        location: str = "",
    ) -> None:
        """Use `App.topic`, which keeps the topic in `App.topics`. Raises ConfigError."""
        try:
            self.name = topic_name(name)
        except ValueError as error:
            raise ConfigError(str(error), setting="topic") from None
        self.key = key
        self.value = value
        self.partitions = _count(name, "partitions", partitions)
        self.replication = _count(name, "replication", replication)
        self.config = _config(name, config)
        self.location = location
        for part, spec in (("key", key), ("value", value)):
            if callable(spec) and not is_type(spec):
                raise ConfigError(
                    f'topic "{name}": {part}={getattr(spec, "__name__", spec)!r} is a function, which cannot both read '
                    'and write: give a type, "json", a format, or an object with decoder(topic) and '
                    "encoder(topic, part)",
                    setting=part,
                )
        try:
            self.encode_key = encoder_for(key, name, "key")
            self.encode_value = encoder_for(value, name, "value")
        except ConfigError as error:
            raise ConfigError(f'topic "{name}": {error}', setting=error.setting) from error.__cause__
        self._has_headers = any(headers_of(encode) is not None for encode in (self.encode_key, self.encode_value))

    def key_decoder(self) -> Decoder | None:
        """Returns the decoder of keys; None: they are bytes. Raises ConfigError."""
        return None if self.key is None else decoder_of(self.key, self.name, "key")

    def encode(self, value: Any, key: Any = None, headers: Any = None) -> tuple[str, bytes | None, bytes | None, Any]:
        """Returns name, value, key and headers as a producer takes them. Raises EncodeError."""
        encoded = None if value is None else self.encode_value(value)
        encoded_key = None if key is None else self.encode_key(key)
        if self._has_headers:
            headers = with_headers(headers, (self.encode_key, encoded_key), (self.encode_value, encoded))
        return self.name, encoded, encoded_key, headers

    def encode_many(self, records: Iterable[Any]) -> tuple[str, list[Any]]:
        """Returns name and records as `produce_many` takes them. `records`: values, or `Record` objects."""
        if isinstance(records, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(records, Iterable):
            raise TypeError(f"produce_many takes a sequence of records, not one {type(records).__name__}: give [value]")
        encode_value = self.encode_value
        if not self._has_headers:
            values = [
                self._one(record) if record.__class__ is Record else None if record is None else encode_value(record)
                for record in records
            ]
        else:
            values = [self._one(record if isinstance(record, Record) else Record(record)) for record in records]
        return self.name, values

    def encode_keys(self, keys: Iterable[Any]) -> list[bytes | None]:
        """Returns keys as bytes. Raises EncodeError."""
        encode_key = self.encode_key
        if headers_of(encode_key) is not None:
            raise ConfigError(
                f'the keys of topic "{self.name}" have headers, which keys= cannot give to each record: give '
                "grete.Record(value, key=...) objects",
                setting="keys",
            )
        return [None if key is None else encode_key(key) for key in keys]

    def _one(self, record: Record[Any]) -> tuple[Any, ...]:
        if record.partition is not None:
            raise ConfigError(
                "produce_many places records by their keys: give partition= for all of them, or call produce"
            )
        key = None if record.key is AS_INPUT else record.key
        _, value, key, headers = self.encode(record.value, key, record.headers)
        if record.timestamp is not None:
            return key, value, headers, record.timestamp
        return (key, value) if headers is None else (key, value, headers)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"


def with_headers(given: Any, *encoded: tuple[Encoder, bytes | None]) -> list[tuple[str, bytes | None]]:
    """Returns the headers of a record with those of its encoders. `encoded`: each encoder, with what it returned just
    before, in this thread; None: there is no key or value, and so no header for it.
    """
    headers = list(given.items() if isinstance(given, Mapping) else given or ())
    for encode, part in encoded:
        make = headers_of(encode)
        if make is not None and part is not None:
            headers += make()
    return headers


def name_of(topic: object) -> Any:
    """Returns the name of a topic; anything else unchanged."""
    return topic.name if isinstance(topic, Topic) else topic


def part_encoder(topic: "str | Topic[Any, Any]", part: Part, spec: Any = None) -> Encoder:
    """Returns the encoder of a topic that is declared, or else named with the type `spec`; None: by each value."""
    if isinstance(topic, Topic):
        return topic.encode_key if part == "key" else topic.encode_value
    return encoder_for(spec, topic, part)


def _count(name: object, setting: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        return positive_int(value)
    except ValueError as error:
        raise ConfigError(f'topic "{name}": {setting}={value!r}: {error}', setting=setting) from None


def _config(name: object, config: object) -> dict[str, str]:
    if config is None:
        return {}
    if not isinstance(config, Mapping) or not all(isinstance(one, str) for one in config):
        raise ConfigError(
            f'topic "{name}": config is a dict of Kafka\'s settings, like {{"retention.ms": 3600000}}, not {config!r}',
            setting="config",
        )
    return {setting: str(value).lower() if isinstance(value, bool) else str(value) for setting, value in config.items()}
