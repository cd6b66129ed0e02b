"""Results of handlers: declared by `publish=`, encoded, and written with the producer of the job."""

import collections.abc
import inspect
import typing
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from grete import payloads
from grete._native import Message, Messages
from grete._plural import counted
from grete._routing import hints
from grete.errors import BatchResultError, ConfigError, GreteError
from grete.payloads import Decoder
from grete.payloads.annotations import type_name, unwrap_optional
from grete.payloads.encode import Encoder, headers_of, writer_of
from grete.topic import AS_INPUT, Record, Topic, part_encoder, with_headers

if TYPE_CHECKING:
    from grete._processing.instances.job_producer import JobProducer

_LISTS = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable)

# What a handler of batches may return.
_BATCH_RESULTS = (list, tuple, Iterator, AsyncIterator)


class ResultRecord(NamedTuple):
    """Record to write."""

    value: bytes | None
    key: bytes | None
    headers: Any
    partition: int | None
    timestamp: Any


@dataclass(frozen=True, slots=True)
class ResultTopic:
    """Topic that takes the results of a handler.

    Attributes:
        topic: its name.
        handler: name of the handler, for errors.
        encode_value, encode_key: encoders of the topic.
        value: type or format of the values; None: unknown.
        lists_are_values: whether a list is one value, because the topic's values are lists.
        plain: class of the values, of which each result is one value; None: several, or unknown.
        may_be_empty: whether the handler of a batch may return nothing at all, because its results may be `Record`
            objects with their own keys.
    """

    topic: str
    handler: str
    encode_value: Encoder
    encode_key: Encoder
    value: Any
    lists_are_values: bool
    plain: type | None
    may_be_empty: bool = True

    def decoder(self) -> Decoder | None:
        """Returns the decoder of what the handler publishes; None: unknown."""
        if self.value is None:
            return None
        return payloads.decoder_of(self.value, self.topic)

    def split(self, result: Any) -> Iterable[Any]:
        """Returns the values, and `Record` objects, of a result."""
        if isinstance(result, Iterator):
            return result
        if self.lists_are_values or not isinstance(result, (list, tuple)) or hasattr(result, "_fields"):
            self._refuse_awaitable(result)
            return (result,)
        return result

    def is_async(self, result: Any) -> bool:
        """Returns whether a result is an asynchronous iterator."""
        return hasattr(result, "__anext__")

    def _refuse_awaitable(self, result: Any) -> None:
        if inspect.isawaitable(result) or hasattr(result, "__anext__"):
            if inspect.iscoroutine(result):
                result.close()
            raise GreteError(
                f"{self.handler} returned {type(result).__name__}, which needs an event loop: make the handler "
                "async def"
            )

    def encode(self, one: Any, key: bytes | None) -> ResultRecord:
        """Encodes a value, or a `Record`. `key`: of the record that the handler was given."""
        headers: Any = None
        partition = timestamp = own_key = None
        value = one
        if isinstance(one, Record):
            value, headers, partition, timestamp = one.value, one.headers, one.partition, one.timestamp
            if one.key is not AS_INPUT:
                key = own_key = None if one.key is None else self.encode_key(one.key)
        encoded = None if value is None else self.encode_value(value)
        if headers_of(self.encode_value) is not None or headers_of(self.encode_key) is not None:
            headers = with_headers(headers, (self.encode_key, own_key), (self.encode_value, encoded))
        return ResultRecord(encoded, key, headers, partition, timestamp)

    def encode_batch(self, result: Any, messages: Messages) -> list[ResultRecord]:
        """Encodes the result of a batch: one value for each record in order, or `Record` objects with their own keys.

        All values are encoded before the first one is written.
        """
        if self.lists_are_values or not isinstance(result, (list, tuple, Iterator)) or hasattr(result, "_fields"):
            self._refuse_awaitable(result)
            if not isinstance(result, (list, Iterator)):
                raise BatchResultError(
                    f"{self.handler} was given a batch and returned one {type(result).__name__}: return a list with "
                    "one value for each record, or with grete.Record(value, key=...) objects",
                    handler=self.handler,
                    expected=len(messages),
                    got=None,
                )
        values = list(result)
        if not (self._has_own_keys(values) if values else self.may_be_empty):
            if len(values) != len(messages):
                raise BatchResultError(
                    f"{self.handler} was given {counted(len(messages), 'record')} and returned "
                    f"{counted(len(values), 'value')}: return one for each record, in order "
                    "(None: nothing), or grete.Record(value, key=...) objects",
                    handler=self.handler,
                    expected=len(messages),
                    got=len(values),
                )
            keys = messages.keys()
        else:
            keys = [None] * len(values)
        return [self.encode(one, key) for one, key in zip(values, keys, strict=True) if one is not None]

    def _has_own_keys(self, values: list[Any]) -> bool:
        """Returns whether all values say their keys themselves, so that none is taken from the input."""
        return all(isinstance(one, Record) and one.key is not AS_INPUT for one in values)


class ResultWriter:
    """Writes the results of one consumer instance: an `ResultTopic` with the producer of its jobs."""

    __slots__ = ("_producer", "_topic")

    def __init__(self, result_topic: ResultTopic, producer: "JobProducer") -> None:
        self._topic = result_topic
        self._producer = producer

    def write(self, result: Any, message: Message) -> None:
        """Writes the result for one record, in a worker thread."""
        result_topic, producer = self._topic, self._producer
        for one in result_topic.split(result):
            if one is None:
                continue
            if one.__class__ is Record:
                self._produce(result_topic.encode(one, message.key))
            elif headers_of(result_topic.encode_value) is None:
                producer._publish(result_topic.topic, result_topic.encode_value(one), message)  # noqa: SLF001
            else:
                self._produce(result_topic.encode(one, message.key))

    async def write_async(self, result: Any, message: Message) -> None:
        """Writes the result for one record, on the event loop."""
        result_topic = self._topic
        async for one in _iterate(result_topic, result):
            if one is not None:
                await self._append(result_topic.encode(one, message.key))

    def write_batch(self, result: Any, messages: Messages) -> None:
        """Writes the result for a batch, in a worker thread."""
        result_topic = self._topic
        if result.__class__ is list and len(result) == len(messages) and result_topic.plain is not None:
            # The usual case: a value for each record, and nothing that says more.
            encode = result_topic.encode_value
            if headers_of(encode) is None and set(map(type, result)) == {result_topic.plain}:
                try:
                    values = list(map(writer_of(encode), result))
                except Exception:
                    values = list(map(encode, result))  # which says topic and type
                self._producer.produce_many(result_topic.topic, values, keys=messages.keys())
                return
        records = result_topic.encode_batch(result, messages)
        if all(record[2:] == (None, None, None) for record in records):
            values, keys = [record.value for record in records], [record.key for record in records]
            if values:
                self._producer.produce_many(result_topic.topic, values, keys=keys)
            return
        for record in records:
            self._produce(record)

    async def write_batch_async(self, result: Any, messages: Messages) -> None:
        """Writes the result for a batch, on the event loop."""
        values = [one async for one in _iterate(self._topic, result)]
        for record in self._topic.encode_batch(iter(values), messages):
            await self._append(record)

    def _produce(self, record: ResultRecord) -> None:
        value, key, headers, partition, timestamp = record
        self._producer.produce(
            self._topic.topic, value, key=key, headers=headers, partition=partition, timestamp=timestamp
        )

    async def _append(self, record: ResultRecord) -> None:
        await self._producer.append(self._topic.topic, *record)


async def _iterate(result_topic: ResultTopic, result: Any) -> AsyncIterator[Any]:
    if result_topic.is_async(result):
        async for one in result:
            yield one
    else:
        for one in result_topic.split(result):
            yield one


def make_result_topic(
    publish: Any, returned: Any, handler: str, declared: typing.Mapping[str, Topic[Any, Any]]
) -> ResultTopic:
    """Makes the result topic of a route. `returned`: annotation of the handler's return. Raises ConfigError."""
    topic: str | Topic[Any, Any] = declared.get(publish, publish) if isinstance(publish, str) else publish
    element = hints.awaited(returned)
    if element in (None, type(None)):
        raise ConfigError(
            f'publish="{topic}", and {handler} returns None: let it return what goes there, or leave publish out',
            setting="publish",
        )
    lists_are_values = isinstance(topic, Topic) and _is_list(topic.value)
    plain = unwrap_optional(element) if element is not hints.MISSING else element
    if not lists_are_values:
        plain = hints.element(plain)
    plain = unwrap_optional(plain) if plain is not hints.MISSING else plain
    may_be_empty = plain in (hints.MISSING, Any, object) or _names_record(plain)
    if typing.get_origin(plain) is Record:
        plain = unwrap_optional(typing.get_args(plain)[0])
    if plain in (hints.MISSING, Any, object, Record, None, type(None)) or isinstance(plain, typing.TypeVar):
        plain = None
    value = topic.value if isinstance(topic, Topic) else plain
    if plain is not None and _is_class(value) and hints.contradict(plain, value):
        raise ConfigError(
            f'{handler} returns {type_name(plain)}, and topic "{topic}" takes {type_name(value)}: return a '
            f"value of type {type_name(value)}, or declare the topic with value={type_name(plain)}",
            setting="publish",
        )
    return ResultTopic(
        topic.name if isinstance(topic, Topic) else topic,
        handler,
        part_encoder(topic, "value", plain),
        part_encoder(topic, "key"),
        value,
        lists_are_values,
        _plain_class(value),
        may_be_empty,
    )


def check_batch_result(publish: Any, returned: Any, handler: str) -> None:
    """Refuses a handler of batches that says it returns one value, and not one for each record."""
    plain = unwrap_optional(hints.awaited(returned))
    origin = typing.get_origin(plain) or plain
    if not isinstance(origin, type) or hints.is_nothing(plain) or getattr(origin, "_is_protocol", False):
        return
    is_single = typing.is_typeddict(origin) or hasattr(origin, "_fields")
    if is_single or not any(issubclass(one, origin) or issubclass(origin, one) for one in _BATCH_RESULTS):
        raise ConfigError(
            f'publish="{publish}", and {handler} is given a batch and returns one {type_name(plain)}: return a list '
            f"with one value for each record, -> list[{type_name(plain)}], or take one record at a time",
            setting="publish",
        )


def check_no_result(returned: Any, handler: str) -> None:
    """Refuses a handler that says it returns something, on a route without `publish=`."""
    if hints.is_nothing(returned):
        return
    raise ConfigError(
        f"{handler} returns {type_name(hints.awaited(returned))}, and its route publishes nothing, so the value would "
        'be lost: say where it goes, publish="invoices", or annotate the function with -> None',
        setting="publish",
    )


def _names_record(annotation: Any) -> bool:
    """Returns whether `Record` is the annotation, or one of its union."""
    return (typing.get_origin(annotation) or annotation) is Record or any(
        map(_names_record, typing.get_args(annotation))
    )


def _is_list(value: Any) -> bool:
    return (typing.get_origin(value) or value) in _LISTS


def _is_class(value: Any) -> bool:
    return isinstance(unwrap_optional(value), type)


def _plain_class(value: Any) -> type | None:
    """Returns the class if each object of it is one value."""
    plain = unwrap_optional(value)
    if not isinstance(plain, type) or typing.get_origin(plain) is not None or typing.is_typeddict(plain):
        return dict if typing.is_typeddict(plain) else None
    return None if issubclass(plain, (list, tuple, Record, Iterator)) or plain is object else plain
