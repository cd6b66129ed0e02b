"""A whole topic, or a part of it, as Arrow."""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from grete import errors
from grete._native import Messages
from grete.client import arguments
from grete.client.consumer import Consumer
from grete.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow

Position = int | Literal["earliest", "latest"] | datetime
"""Position in each partition: an offset (negative: from the end), an end, or the first record from a time on."""

# Seconds of one wait for messages, before the ends are compared again.
_POLL_TIMEOUT = 0.25


def read_topic(
    topic: str,
    settings: Mapping[str, Any] | None = None,
    *,
    start: Position = "earliest",
    end: Position = "latest",
    partitions: Iterable[int] | None = None,
    headers: bool = True,
    max_messages: int = 50_000,
    timeout: float = 60.0,
) -> "TopicReader":
    """Returns the records of a topic as a stream of Arrow batches, for polars, pyarrow and all that import streams.

    ```
    polars.DataFrame(grete.client.read_topic("orders"))
    ```

    `settings` are Kafka's; None: those of `grete.toml` and of GRETE_KAFKA_... variables. Records from `start` up to and
    without `end` are read, from all partitions or from `partitions`; "latest" is the end at the time of the call that
    reads. A time without a zone is local. `headers=False` leaves out the column of headers, which costs most of the
    time. A batch has at most `max_messages` records of one partition. Needs pyarrow (`pip install "grete[arrow]"`).

    The call asks the brokers for the topic, for up to `timeout` seconds. Raises ConfigError for wrong settings and a
    partition that does not exist, UnknownTopicError, TimeoutError without an answer, TypeError and ValueError for other
    arguments.
    """
    return TopicReader(
        topic,
        settings,
        start=start,
        end=end,
        partitions=partitions,
        headers=headers,
        max_messages=max_messages,
        timeout=timeout,
    )


class TopicReader:
    """Records of a topic: exports an Arrow stream, and iterates over `pyarrow.RecordBatch`. Made by `read_topic`.

    Columns: partition int32, offset int64, timestamp timestamp[ms, UTC], key binary, value binary, and headers
    list<struct<name string, value binary>>. Batches follow each other in the order of offsets in each partition; there
    is no order between partitions. Memory holds one batch and what the consumer has fetched ahead (`queued_bytes`).

    Each iteration and each export reads anew, with a consumer of its own, and no group. Reading raises
    UnknownTopicError, ConfigError for a partition that does not exist, and TimeoutError when no record has arrived for
    `timeout` seconds. The arguments, the settings, the topic and its partitions are checked by `read_topic`, too: a
    library that reads the stream may wrap an error in one of its own.
    """

    def __init__(
        self,
        topic: str,
        settings: Mapping[str, Any] | None = None,
        *,
        start: Position = "earliest",
        end: Position = "latest",
        partitions: Iterable[int] | None = None,
        headers: bool = True,
        max_messages: int = 50_000,
        timeout: float = 60.0,
    ) -> None:
        """Takes the arguments of `read_topic`, and asks the brokers for the topic."""
        if not isinstance(topic, str):
            raise TypeError(f"read_topic takes a topic's name, not {topic!r}")
        self._topic = topic
        self._settings = settings
        self._start, self._end = _position(start, "start"), _position(end, "end")
        self._partitions = None if partitions is None else [arguments.partition(number) for number in partitions]
        self._headers = headers
        self._max_messages = arguments.integer(max_messages, "max_messages", 1, arguments.MAX_PARTITION)
        self._timeout = timeout
        _pyarrow()
        with self._consumer() as consumer:
            self._existing(consumer)

    @property
    def schema(self) -> "pyarrow.Schema":
        """Schema of all batches, as a `pyarrow.Schema`."""
        pyarrow = _pyarrow()
        fields = [
            pyarrow.field("partition", pyarrow.int32(), nullable=False),
            pyarrow.field("offset", pyarrow.int64(), nullable=False),
            pyarrow.field("timestamp", pyarrow.timestamp("ms", "UTC")),
            pyarrow.field("key", pyarrow.binary()),
            pyarrow.field("value", pyarrow.binary()),
        ]
        if self._headers:
            header = pyarrow.struct([pyarrow.field("name", pyarrow.string()), pyarrow.field("value", pyarrow.binary())])
            fields.append(pyarrow.field("headers", pyarrow.list_(header)))
        return pyarrow.schema(fields)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the records, through the Arrow PyCapsule interface. They are read while the stream is."""
        reader = _pyarrow().RecordBatchReader.from_batches(self.schema, iter(self))
        capsule: object = reader.__arrow_c_stream__(requested_schema)
        return capsule

    def __iter__(self) -> Iterator["pyarrow.RecordBatch"]:
        """Reads the records, batch by batch."""
        convert = _Conversion(self.schema, self._headers)
        with self._consumer() as consumer:
            numbers = self._existing(consumer)
            start, end = self._offsets(consumer, numbers, self._start), self._offsets(consumer, numbers, self._end)
            left = {partition: end[partition] for partition in numbers if start[partition] < end[partition]}
            consumer.assign([(self._topic, partition, start[partition]) for partition in left])
            deadline = time.monotonic() + self._timeout
            while left:
                messages = consumer.poll(_POLL_TIMEOUT, self._max_messages)
                if messages:
                    wanted = messages_before(messages, left.get(messages.partition, -1))
                    if wanted:
                        yield convert(wanted)
                # Positions count, not offsets of messages: the last offsets may hold none (control records).
                reached = [number for number in left if (consumer.position(self._topic, number) or 0) >= left[number]]
                for number in reached:
                    del left[number]
                if reached:
                    consumer.pause([(self._topic, number) for number in reached])
                if messages or reached:
                    deadline = time.monotonic() + self._timeout
                elif time.monotonic() > deadline:
                    raise errors.TimeoutError(self._too_late(consumer, left))

    def _consumer(self) -> Consumer:
        return Consumer.from_config() if self._settings is None else Consumer(self._settings)

    def _existing(self, consumer: Consumer) -> list[int]:
        there = consumer.partitions(self._topic, self._timeout)
        for number in self._partitions or ():
            if number not in there:
                raise ConfigError(
                    f"{self._topic} has no partition {number}: there are {len(there)}, from 0 to {max(there)}",
                    setting="partitions",
                )
        return there if self._partitions is None else list(dict.fromkeys(self._partitions))

    def _offsets(self, consumer: Consumer, numbers: list[int], position: Position) -> dict[int, int]:
        """Returns the offset of a position in each partition, within the log."""

        def at(where: Position) -> dict[int, int]:
            found = consumer.offsets([(self._topic, number, where) for number in numbers], self._timeout)
            return {number: offset for (_, number), offset in found.items()}

        if isinstance(position, (str, datetime)):
            return at(position)
        starts, ends = at("earliest"), at("latest")
        wanted = {at: position if position >= 0 else end + position for at, end in ends.items()}
        return {partition: min(max(offset, starts[partition]), ends[partition]) for partition, offset in wanted.items()}

    def _too_late(self, consumer: Consumer, left: Mapping[int, int]) -> str:
        number, end = next(iter(left.items()))
        return (
            f"{self._topic}[{number}] has sent no records for {self._timeout:g} s: it is read up to offset "
            f"{consumer.position(self._topic, number)} of {end}; the log says why, and timeout= how long to wait"
        )

    def __repr__(self) -> str:
        return f"<TopicReader of {self._topic} from {self._start} to {self._end}>"


def _position(given: object, name: str) -> Position:
    """Returns the position that argument `name` gives."""
    if given in ("earliest", "latest") or isinstance(given, datetime):
        place: Position = given
        return place
    wanted = f'{name} is "earliest", "latest", an offset, a negative number (from the end), or a datetime'
    if isinstance(given, str):
        raise ValueError(f'{wanted}, not "{given}"')
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"{wanted}, not {given!r}")
    return arguments.integer(given, name, -arguments.MAX_OFFSET, arguments.MAX_OFFSET)


def messages_before(messages: Messages, end: int) -> Messages:
    """Returns the messages before offset `end`."""
    if not messages or messages.last_offset < end:
        return messages
    return messages[: sum(1 for offset in messages.offsets if offset < end)]


class _Conversion:
    """Conversion of messages to a batch of a schema."""

    def __init__(self, schema: "pyarrow.Schema", headers: bool) -> None:
        pyarrow = _pyarrow()
        self._schema = schema
        self._headers = headers
        # Binary columns are copies, so that a batch does not keep all that was fetched with it.
        self._own = pyarrow.schema([schema.field(name) for name in ("offset", "timestamp", "key", "value")])

    def __call__(self, messages: Messages) -> "pyarrow.RecordBatch":
        pyarrow = _pyarrow()
        own = pyarrow.record_batch(messages, schema=self._own)
        columns = [pyarrow.repeat(pyarrow.scalar(messages.partition, pyarrow.int32()), len(messages))]
        columns += own.columns
        if self._headers:
            rows = [[{"name": name, "value": value} for name, value in message.headers] for message in messages]
            columns.append(pyarrow.array(rows, self._schema.field("headers").type))
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ConfigError(
            'read_topic needs pyarrow, which is not installed: pip install "grete[arrow]"', setting="pyarrow"
        ) from None
    return pyarrow
