"""Grete's native part. Private: import from `grete` and `grete.client`."""

from asyncio import Future
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from types import EllipsisType, GenericAlias, MappingProxyType, TracebackType
from typing import Any, Generic, Literal, Never, Protocol, Self, TypeAlias, TypedDict, final, overload

from typing_extensions import TypeVar, disjoint_base

from grete.errors import DeliveryError, GreteError
from grete.topic import Record as _OutgoingRecord
from grete.topic import Topic as _Topic

# Type of a message's payload: `grete.Message[Order]`.
_P_co = TypeVar("_P_co", default=Any, covariant=True)
_K = TypeVar("_K")
_V = TypeVar("_V")

_Bytes: TypeAlias = bytes | bytearray | memoryview[Any]
_Headers: TypeAlias = (
    Mapping[str, _Bytes | None] | Sequence[tuple[str, bytes | None]] | Sequence[tuple[str, _Bytes | None]]
)
_Timestamp: TypeAlias = int | datetime
_Record: TypeAlias = (
    _Bytes
    | tuple[_Bytes | None, _Bytes | None]
    | tuple[_Bytes | None, _Bytes | None, _Headers | None]
    | tuple[_Bytes | None, _Bytes | None, _Headers | None, _Timestamp | None]
    | None
)

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _TraceStatistics(TypedDict):
    started: int
    finished: int
    abandoned: int
    cut: int
    sent: int
    payloads: int
    bytes: int
    retried: int
    dropped: dict[str, int]
    broken_headers: int
    waiting: int
    waiting_bytes: int

_StartOffset: TypeAlias = int | Literal["earliest", "latest"] | datetime | None

_NewTopicTuple: TypeAlias = tuple[str, int, int, list[list[int]], list[tuple[str, str]]]
_PartitionTuple: TypeAlias = tuple[int, int | None, int, list[int], list[int]]
_TopicTuple: TypeAlias = tuple[str, int, bool, list[_PartitionTuple], int]
_AclTuple: TypeAlias = tuple[int, str, int, str, str, int, int]
_AclFilterTuple: TypeAlias = tuple[int, str | None, int, str | None, str | None, int, int]
_ClusterTuple: TypeAlias = tuple[str, int | None, list[tuple[int, str, int, str | None]]]
_ConfigTuple: TypeAlias = tuple[str, str | None, str, bool, bool]
_GroupListingTuple: TypeAlias = tuple[str, str, str, str]
_MemberTuple: TypeAlias = tuple[str, str | None, str, str, list[tuple[str, int]]]
_TransactionTuple: TypeAlias = tuple[str, int, str, int, int | None, int, int, list[tuple[str, int]]]
_GroupTuple: TypeAlias = tuple[str, str, str, str, str, int, list[_MemberTuple]]

__all__ = [
    "EXPOSITION_CONTENT_TYPE",
    "GIL_WAIT_WARNING",
    "LOOP_WAIT_WARNING",
    "Admin",
    "ArrowColumns",
    "AsyncioDeliveryWatcher",
    "AvroCodec",
    "Client",
    "ClientSecret",
    "Decision",
    "Deliveries",
    "DeliveriesIterator",
    "Delivery",
    "Dispatcher",
    "EmbeddedBroker",
    "Event",
    "EventChannel",
    "Health",
    "History",
    "HttpProtocol",
    "Job",
    "JobProducer",
    "LogEvent",
    "Message",
    "Messages",
    "MessagesIterator",
    "NativeToken",
    "Producer",
    "Route",
    "SharedText",
    "Shutdown",
    "SignalWatch",
    "Span",
    "SpanContext",
    "TokenStore",
    "TopicPattern",
    "Tracer",
    "Worker",
    "_TestingLane",
    "_TestingLog",
    "_TestingStepper",
    "__version__",
    "_testing_decode",
    "_testing_encode",
    "aggregate_metrics",
    "avro_columns",
    "broker_features",
    "client_certificate_dates",
    "config_entries",
    "dev_certificates",
    "die_with_parent",
    "fork_generation",
    "is_subreaper",
    "map_blocks_from",
    "metric_descriptors",
    "needed_acl",
    "one_line",
    "route_defaults",
    "server_certificate_dates",
]

__version__: str
EXPOSITION_CONTENT_TYPE: str
"""Content type of Prometheus' text format."""
GIL_WAIT_WARNING: float
"""Seconds of waiting for the GIL from which the wait is a problem."""
LOOP_WAIT_WARNING: float
"""Seconds of waiting for the event loop from which the wait is a problem."""

@final
class Admin:
    """One admin client with one "grete-admin" thread. Every call takes its timeout in seconds; None: no limit."""

    def __new__(cls, config: Sequence[tuple[str, str]], log: Callable[[list[LogEvent]], None]) -> Admin:
        """`log`: called with a list of log events by threads that wait in a call."""
    def create_topics(
        self, topics: Sequence[_NewTopicTuple], if_not_exists: bool, validate_only: bool, timeout: float | None
    ) -> list[bool]:
        """Creates topics. Returns whether each topic was created; False: it existed. `topics`: (name, partitions,
        replication factor, brokers of each partition, settings).
        """
    def delete_topics(self, names: Sequence[str], timeout: float | None) -> None: ...
    def create_partitions(self, totals: Sequence[tuple[str, int]], validate_only: bool, timeout: float | None) -> None:
        """Adds partitions to topics. `totals`: (name, number of partitions in all)."""
    def topics(self, timeout: float | None) -> list[_TopicTuple]:
        """Returns all topics."""
    def describe_topics(self, names: Sequence[str], timeout: float | None) -> list[_TopicTuple]: ...
    def cluster(self, timeout: float | None) -> _ClusterTuple: ...
    def config(self, kind: str, name: str, timeout: float | None) -> list[_ConfigTuple]:
        """Returns all settings of a "topic", or of a "broker" by its number ("": of all brokers)."""
    def alter_config(
        self,
        kind: str,
        name: str,
        values: Sequence[tuple[str, str]],
        delete: Sequence[str],
        validate_only: bool,
        timeout: float | None,
    ) -> None: ...
    def describe_acls(self, filter: _AclFilterTuple, timeout: float | None) -> list[_AclTuple]:  # noqa: A002 (its name in Rust)
        """Returns the ACLs that a filter finds."""
    def create_acls(self, acls: Sequence[_AclTuple], timeout: float | None) -> None: ...
    def delete_acls(self, filters: Sequence[_AclFilterTuple], timeout: float | None) -> list[list[_AclTuple]]:
        """Removes the ACLs that filters find. Returns those of each filter."""
    def groups(self, states: Sequence[str], timeout: float | None) -> tuple[list[_GroupListingTuple], Exception | None]:
        """Returns all groups in these states (none: in any), and the error that keeps the groups of some brokers out of
        the list.
        """
    def describe_groups(self, groups: Sequence[str], timeout: float | None) -> list[_GroupTuple]: ...
    def delete_groups(self, groups: Sequence[str], timeout: float | None) -> None: ...
    def remove_members(self, group: str, instances: Sequence[str], timeout: float | None) -> None: ...
    def transactions(
        self, states: Sequence[str], producer_ids: Sequence[int], timeout: float | None
    ) -> tuple[list[tuple[str, int, str, int]], Exception | None]:
        """Returns all transactional ids in these states (none: in any) and with these producer ids (none: any), and the
        error that keeps the ids of some brokers out of the list.
        """
    def describe_transactions(self, ids: Sequence[str], timeout: float | None) -> list[_TransactionTuple]: ...
    def describe_producers(
        self, partitions: Sequence[tuple[str, int]], timeout: float | None
    ) -> list[list[tuple[int, int, int, int, int, int | None]]]:
        """Returns the producers of each of these partitions."""
    def fence_producers(self, ids: Sequence[str], timeout: float | None) -> None: ...
    def abort_transaction(
        self, partition: tuple[str, int], producer: tuple[int, int, int], timeout: float | None
    ) -> None:
        """Writes an abort marker of a producer, given by id, epoch, and the epoch of its coordinator, to a
        partition.
        """
    def committed(self, group: str, timeout: float | None) -> list[tuple[str, int, int]]:
        """Returns all offsets that the group has committed: (topic, partition, offset)."""
    def lag(self, group: str, timeout: float | None) -> list[tuple[str, int, int, int | None]]:
        """Returns (topic, partition, committed offset, end of the partition)."""
    def share_offsets(self, group: str, timeout: float | None) -> list[tuple[str, int, int | None, int | None]]:
        """Returns the offsets of a share group: (topic, partition, start offset, records that are not done)."""
    def offsets(self, places: Sequence[tuple[str, int, _StartOffset]], timeout: float | None) -> list[int]:
        """Returns the offset of each of these positions."""
    def reset_offsets(
        self, group: str, to: Sequence[tuple[str, int, _StartOffset]], dry_run: bool, timeout: float | None
    ) -> list[tuple[str, int, int | None, int]]:
        """Sets committed offsets. Returns (topic, partition, offset before, offset after)."""
    def delete_offsets(self, group: str, partitions: Sequence[tuple[str, int]], timeout: float | None) -> None: ...
    def delete_records(self, before: Sequence[tuple[str, int, int]], timeout: float | None) -> list[int]:
        """Deletes records. Returns the first offset that remains in each partition. `before`: (topic, partition,
        offset); -1: all records.
        """
    def drain_log_events(self) -> list[LogEvent]:
        """Returns the log events since the last call."""
    def user(self) -> str | None:
        """Returns the user as brokers name it, without `User:`; None: it is unknown."""
    def close(self, timeout: float | None) -> None:
        """Ends the thread and the calls under way. A second call does nothing."""

@final
class AvroCodec:
    """Avro's binary encoding for one writer's schema and one reader's schema, both compiled once. Threads may share it.

    `decode` makes a dict of each record (or an object of its class in `types`), with dates, times, Decimals and UUIDs
    for logical types. A duration is its 12 bytes; a timestamp in nanoseconds is an int. `encode` takes dicts and
    objects with attributes.

    Args:
        writer_schema: JSON text.
        reader_schema: schema to read with; None: the writer's.
        references: schemas whose named types both use, each after those that it uses itself.
        types: for the full name of a record a tuple (class, names of positional arguments, names of keyword arguments),
            for that of an enum a dict of its symbols.
        prefix: put before each encoding.

    Raises ValueError for schemas that are not valid or do not match.
    """

    def __new__(
        cls,
        writer_schema: str,
        reader_schema: str | None = None,
        *,
        references: Sequence[str] = ...,
        types: dict[str, Any] | None = None,
        prefix: bytes = ...,
    ) -> Self: ...
    def decode(self, data: bytes, start: int = 0, /) -> Any:
        """Decodes the bytes from `start` to their end. Raises ValueError for bytes that are no data of the writer's
        schema, or that have no equivalent in Python (a date after the year 9999).
        """

    def encode(self, value: object, /) -> bytes:
        """Encodes an object with the writer's schema. Raises ValueError if it does not fit, or has fields that the
        schema does not have.
        """

@final
class ArrowColumns:
    """Columns for libraries that read Arrow through the PyCapsule interface: pyarrow, polars, duckdb."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Exports a struct with a field per column. `requested_schema` is ignored, which the interface allows."""

    def __arrow_c_schema__(self) -> object:
        """Exports the schema."""

@final
class TokenStore:
    """Place where a source puts its OAUTHBEARER tokens, for all clients that have the same source."""

    def __new__(cls) -> TokenStore: ...
    def set(
        self,
        token: str | NativeToken,
        extensions: Sequence[tuple[str, str]],
        subject: str | None = None,
        validity: str | None = None,
    ) -> None:
        """Replaces the token. `subject`: the user that the token names. `validity`: the times of the token as a text,
        for the error of a broker that refuses the token. Raises ValueError for a token or an extension that cannot be
        sent.
        """

    def fail(self, reason: str, lasts: bool) -> None:
        """Removes the token: logins fail for this reason until there is a new one. `lasts`: the source has failed
        several times in a row, or hangs, so a client that has never logged in ends with the reason.
        """

    def refused(self) -> bool:
        """Returns whether a broker has refused the present token."""

    def users(self) -> int:
        """Returns the number of clients that use the tokens."""

@final
class NativeToken:
    """Bearer token that Python never has as a text: the memory of Python's texts is not overwritten."""

    @staticmethod
    def of_file(path: str | PathLike[str]) -> NativeToken:
        """Reads a file. Raises ValueError, which says what is wrong with the file and repeats nothing of it."""
    @staticmethod
    def of_answer(answer: bytearray, length: int) -> tuple[NativeToken, float | None]:
        """Reads the first `length` bytes: the answer of a token endpoint. Returns the token with its life in seconds;
        None: unknown. Raises ValueError, which repeats nothing of the answer.
        """
    def claims(self) -> str | None:
        """Returns the claims of a JSON web token, as the text of a JSON object; None: the token is opaque."""

@final
class ClientSecret:
    """Secret of a client at a token endpoint. Two objects with one secret are equal."""

    def __new__(cls, client_id: str, secret: str) -> ClientSecret: ...
    def authorization(self) -> bytearray:
        """Returns the value of the header `Authorization`, for the caller to overwrite."""
    def mask(self, text: str) -> str:
        """Returns a text of the endpoint without the secret."""

@final
class EmbeddedBroker:
    """Kafka brokers in this process, on a thread that needs no GIL. They run from the constructor to `stop`, or to the
    end of the object.
    """

    def __new__(
        cls,
        *,
        ports: Sequence[int],
        topics: Sequence[tuple[str, int]],
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        allow_anyone: bool = False,
        data: str | PathLike[str] | None = None,
        fsync: bool = False,
        max_bytes: int | None = None,
        release: str | None = None,
        auto_create_topics: bool = True,
        log_to_stderr: bool = False,
        advertised_ports: Sequence[int] = ...,
        settings: Sequence[tuple[str, str]] = ...,
        tls: tuple[str, str, str | None] | None = None,
        users: Sequence[tuple[str, str]] = ...,
    ) -> EmbeddedBroker:
        """Starts one broker for each port (0: a free one). Raises ConfigError and BrokerError.

        `advertised_ports`: ports in Metadata, for proxies in front of the brokers. `settings`: by Kafka's names.
        `tls`: certificate chain and key of the brokers, and the authority whose certificates clients must show (None:
        none), in PEM. `users`: names and passwords for logins by SASL; empty: no logins.
        `users`: names and passwords for logins by SASL; empty: no logins.
        """

    def addresses(self) -> list[tuple[int, str, int]]:
        """Returns (id, host, port) of each broker."""

    def stop(self) -> None:
        """Stops the brokers and closes all connections. A second call has no effect."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the brokers have ended. Returns whether they have."""

    def end_fd(self) -> int:
        """Returns a descriptor that is readable once the brokers have ended."""

    def failure(self) -> str | None:
        """Returns why the brokers have ended by themselves; None: they run, or were stopped."""

    def log_lines(self) -> list[str]:
        """Returns the latest 1,000 lines of the log."""

    def call(self, command: str, **arguments: Any) -> Any:
        """Runs a command on the thread of the brokers and returns its result. What the command changed is stored by
        then. Raises ValueError for an unknown command, and BrokerError for one that cannot be done.

        - `create_topic(name, partitions=-1, configs={})`
        - `topics()`: {name: partitions}
        - `stop_broker(broker)`, `start_broker(broker)`: from 1
        - `suspend_broker(broker)`, `resume_broker(broker)`: hang like a process after SIGSTOP, and go on
        - `move_leader(topic, partition, broker)`
        - `advance_clock(ms)`
        - `clear_faults()`
        """

@final
class Message(Generic[_P_co]):
    """One record: a handle into its `Messages`, which makes each field on access.

    `key` and `value` are copies, so keeping them keeps nothing else. Keeping the message itself keeps the whole batch.
    """

    def __new__(cls, *_args: Never, **_kwargs: Never) -> Self:
        """Raises TypeError: records are read, and tests make them with `grete.testing`."""
    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @property
    def topic(self) -> str:
        """Topic that the record was read from."""
    @property
    def partition(self) -> int:
        """Partition that the record was read from."""
    @property
    def offset(self) -> int:
        """Offset of the record in its partition."""
    @property
    def id(self) -> str:
        """Topic, partition and offset, as "orders-3-42": the same in each run of the record. For idempotency keys."""
    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970 UTC (the producer's time, or the broker's if the topic says so); -1: none."""
    @property
    def key(self) -> bytes | None:
        """Key, copied; `None` if the record has none."""
    @property
    def value(self) -> bytes | None:
        """Value, copied; `None` if the record has none (a tombstone)."""
    @property
    def payload(self) -> _P_co:
        """Value as decoded by the route's `payload=`, on first access and then kept. `None` for a tombstone.

        Raises DecodeError from the decoder's exception, and NoPayloadError when there is no decoder.
        """
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Headers in the record's order, duplicates included, parsed on each access."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TopicPattern:
    """Pattern of topic names: a regular expression that begins with `^` and matches whole names."""

    def __new__(cls, text: str) -> TopicPattern:
        """Raises ValueError with the reason if the text is no pattern."""
    def matches(self, topic: str) -> bool:
        """Returns whether the pattern matches the whole name."""

@final
class Messages(Sequence[Message[_P_co]], Generic[_P_co]):
    """Records of one partition, in offset order. Offsets may have gaps: compaction, transactions, retries.

    The records are stored in columns, and `Message` rows are made on demand. Polars, pyarrow and duckdb accept the
    object directly: it exports Arrow struct{offset int64, timestamp timestamp[ms, UTC], key binary_view, value
    binary_view} without a copy. Everything zero-copy (this object, its slices and messages, Arrow arrays, memoryviews)
    keeps the whole fetched batch in memory. `values()`, `keys()` and the fields of a `Message` are copies and keep
    nothing.
    """

    def __new__(cls, *_args: Never, **_kwargs: Never) -> Self:
        """Raises TypeError: records are read, and tests make them with `grete.testing`."""
    def __class_getitem__(cls, item: Any) -> GenericAlias: ...

    empty: _Emptiness
    """On an object: whether there are no messages. On the class: a function that returns no messages, which are the
    result of a `poll` that timed out.
    """
    @property
    def topic(self) -> str:
        """Topic; "" for the empty result of a `poll` that timed out."""
    @property
    def partition(self) -> int:
        """Partition; -1 for the empty result of a `poll` that timed out."""
    @property
    def first_offset(self) -> int:
        """Offset of the first record. Raises IndexError when empty."""
    @property
    def last_offset(self) -> int:
        """Offset of the last record. Raises IndexError when empty."""
    @property
    def next_offset(self) -> int:
        """Offset to continue from once all of these records are processed. -1 when empty."""
    @property
    def high_watermark(self) -> int:
        """High watermark of the partition at fetch time: the offset that the next record will get."""
    @property
    def offsets(self) -> memoryview[int]:
        """All offsets: a read-only memoryview of format "q", without a copy."""
    @property
    def timestamps(self) -> memoryview[int]:
        """All timestamps in ms since 1970 UTC (-1: none): a read-only memoryview of format "q", without a copy."""
    def values(self) -> list[bytes | None]:
        """Returns all values, copied: a list of bytes or None."""
    def keys(self) -> list[bytes | None]:
        """Returns all keys, copied: a list of bytes or None."""
    def payloads(self) -> list[_P_co]:
        """Returns each record's `payload`. Raises DecodeError at the first record that does not decode."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Message[_P_co]]: ...
    @overload
    def __getitem__(self, index: int, /) -> Message[_P_co]: ...
    @overload
    def __getitem__(self, index: slice, /) -> Messages[_P_co]: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Exports the records through the Arrow PyCapsule interface."""
    def __arrow_c_schema__(self) -> object:
        """Returns the schema that `__arrow_c_array__` exports, through the Arrow PyCapsule interface."""
    def _repr_html_(self) -> str:
        """Returns a table of the first and last records for notebooks."""

@final
class _Emptiness:
    def __call__(self) -> Messages: ...
    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> _Emptiness: ...
    @overload
    def __get__(self, instance: Messages[Any], owner: Any = None, /) -> bool: ...

@final
class MessagesIterator:
    """Iterates over `Messages`."""

    def __iter__(self) -> MessagesIterator: ...
    def __next__(self) -> Message: ...
    def __length_hint__(self) -> int: ...

@final
class Job:
    """One call of a hook, handed out by `Dispatcher.next` or `take_async_jobs`. The caller must give the job back."""

    @property
    def id(self) -> int:
        """Unique among the jobs of a dispatcher."""
    @property
    def route(self) -> int: ...
    @property
    def lane(self) -> int:
        """Unique per assignment of a partition; with `slot` the key of the consumer instance."""
    @property
    def slot(self) -> int:
        """Unit of the lane that the job belongs to; 0 for jobs of the whole lane (all but "consume" and
        "dead_letter").
        """
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def attempt(self) -> int:
        """Run of the first unmarked record, from 1."""
    @property
    def kind(self) -> Literal["consume", "dead_letter", "revoked", "shutdown", "eof", "tick"]: ...
    @property
    def consumes(self) -> bool:
        """Whether the job calls `consume`: it is a "consume" job that does not come back as failed (`returned`)."""
    @property
    def unobserved(self) -> bool:
        """True for "consume" jobs whose events had no listeners at hand-out: most jobs."""
    @property
    def lost(self) -> bool:
        """Whether a revoked partition already belongs to another member."""
    @property
    def returned(self) -> bool:
        """Whether the handler has already returned and the job comes back as failed: because the handler raised, or
        because a record that it produced was not delivered.
        """
    @property
    def exactly_once(self) -> bool:
        """Whether what the job produces is staged until its end."""
    @property
    def pending_outputs(self) -> int:
        """Number of produced records that were not settled when the dispatcher last checked."""
    def stage(
        self,
        producer: Producer,
        topic: str,
        value: _Bytes | None,
        *,
        key: _Bytes | None = None,
        headers: _Headers | None = None,
        timestamp: _Timestamp | None = None,
    ) -> Delivery:
        """Stages a record in an exactly-once job."""
    def await_outputs(self, producer: Producer, timeout: float) -> None:
        """Waits until all records that the job has produced are settled, at most `timeout` seconds. Raises
        TimeoutError.
        """
    def delivery_error(self) -> DeliveryError | None:
        """Returns the error of the first produced record that was not written; `None` if all were."""
    @property
    def messages(self) -> Messages | None:
        """Records to consume; `None` for hooks without records, and once the job has been given back."""
    @property
    def failure_history(self) -> tuple[int, str, str, int, int] | None:
        """Failures of the record of a "dead_letter" job: attempts, error class, error message, first and last failure
        in ms since 1970. `None` for other jobs.
        """
    def each(self, function: Callable[[Message], object]) -> type | None:
        """Calls `function(message)` for each message in order, and marks each whose call returns. Ends with the first
        exception, with RevokedError when the partition has been lost meanwhile, and between two records when the job is
        `leaving`. Returns the type of the first result that is not None; None: there is none.
        """
    def each_payload(self, function: Callable[[Any], object]) -> type | None:
        """Calls `function(payload)` for each message in order, and marks each whose call returns. Ends with the first
        exception (DecodeError if a record does not decode), with RevokedError when the partition has been lost
        meanwhile, and between two records when the job is `leaving`. Returns what `each` returns.
        """
    def each_published(
        self,
        function: Callable[[Any], object],
        producer: Producer,
        topic: str,
        class_: type,
        encode: Callable[[Any], bytes | None],
        otherwise: Callable[[Any, Message], object],
        /,
    ) -> type | None:
        """Same as `each_payload`; a result of the class is encoded and written to `topic` with the key of its record,
        and the job's offsets wait for it. `otherwise(result, message)` gets other results, except None, and those that
        `encode` does not take. Returns the type of what it returns first, if that is not None.
        """
    @property
    def leaving(self) -> bool:
        """Whether the partition is being revoked or the App is stopping: records not begun are better left to the next
        owner. Never with offsets "at_most_once".
        """
    def should_yield(self) -> bool:
        """Returns whether the caller should stop between two records, because the job is `leaving`. After True, the end
        of the job completes only the records reported by `progress`.
        """
    def progress(self, rows: int) -> None:
        """Declares the first `rows` records of the job done: if the job fails, they are not presented again. Raises
        RevokedError.
        """
    def failed_offset(self, error: BaseException | None = None) -> int | None:
        """Returns the offset of the record at which the handler failed with `error`, if known.

        That is the record at which `each` stopped, the last record from an unfinished iteration over the messages (or a
        slice of them), or the only record.
        """
    def mark(self, x: Message | Messages, through: bool = False) -> int:
        """Marks `x` as processed; with `through` also all records before it. Returns how many records were not marked
        before. Raises RevokedError when the partition no longer belongs to this job.
        """
    def acknowledge(self, x: Message | Messages, kind: str) -> int:
        """Acknowledges records of a share group: "accept", "release" or "reject". Returns how many records were not
        acknowledged before. Raises RevokedError when the lane is gone.
        """
    def deliveries(self, x: Message) -> int | None:
        """Returns how often the record of a share group was delivered, this delivery included; None: it is
        acknowledged.
        """
    def mark_all(self) -> int:
        """Marks all records of this job as processed. Returns how many were not marked before. Raises RevokedError."""

@final
class Decision:
    """Decision of the dispatcher about a failed job."""

    @property
    def kind(self) -> Literal["retry", "bisect", "dead_letter", "later", "halt", "refused", "skipped"]: ...
    @property
    def wait(self) -> float:
        """Seconds until the records are presented again; 0 unless "retry" or "later"."""
    @property
    def attempt(self) -> int:
        """Number of the next run; 0 unless "retry"."""
    @property
    def rows(self) -> int:
        """Number of records presented again; 0 unless "retry" or "bisect"."""
    @property
    def offset(self) -> int | None:
        """Offset of the record that goes to the dead letter topic; `None` unless "dead_letter"."""

@final
class Route:
    """Topics and how their records are processed. Durations in seconds, sizes in bytes."""

    def __new__(
        cls,
        *,
        id: int,  # noqa: A002
        name: str,
        topics: Sequence[str],
        pool: str = "threads",
        concurrency: str = "partition",
        key_slots: int = 0,
        shares: int = 1,
        max_concurrency: int | None = None,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        max_wait: float = 0.0,
        max_in_flight: int | None = None,
        offsets: str = "auto",
        queue: bool = False,
        max_unmarked: int | None = None,
        offset_map: bool = False,
        attempts: int | None = ...,
        backoff: tuple[float, float] = ...,
        jitter: float = 0.2,
        dead_letter: bool = False,
        priority: int = 0,
        rate_limit: tuple[int, float] | None = None,
        delay: float | None = None,
        max_age: float | None = None,
        dedup: tuple[str, str, float, int] | None = None,
        eof: bool = False,
        tick: float | None = None,
        stall_after: float | None = None,
        handler_timeout: float | None = None,
    ) -> Route:
        """`pool`: "threads" or "loop". `concurrency`: "partition", "key" or "unordered" (with `key_slots` units; 0: one
        for each key that has records). `shares`: number of jobs that share the waiting records without a key; 0: each
        record has a job of its own. `max_concurrency`: most jobs at once; None for no limit.
        `offsets`: "auto", "manual" or "at_most_once". `queue`: a share group hands out records. `attempts`: None for
        no limit. `backoff`: first and longest wait. `jitter`: a share of the wait. `rate_limit`: number of records, and
        the seconds that they may take. Raises ValueError for invalid values.
        """
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def topics(self) -> list[str]: ...

class _RunningJob(TypedDict):
    topic: str
    partition: int
    slot: int
    route: int
    handler: str
    kind: str
    worker: str
    begun: bool
    seconds: float
    undelivered: int | None

class _Lane(TypedDict):
    topic: str
    partition: int
    route: int
    handler: str
    state: str
    position: int | None
    committable: int | None
    high_watermark: int | None
    source: int | None
    queued_bytes: int
    lag: int | None
    lag_seconds: float | None
    last_progress: float | None
    running: int
    running_for: float | None
    stalled: bool
    attempt: int
    in_flight: int
    unmarked: int
    done_ahead: int
    paused_for: float | None
    reason: str | None
    error: str | None
    failed_since: float | None
    waits_for: str | None
    wait: str | None
    last_progress_seconds: float
    unmoved: bool

class _Counts(TypedDict):
    jobs: int
    records: int
    failures: int
    dead_letters: int
    expired: int
    duplicates: int
    stalled: int

_FailureKind: TypeAlias = Literal["retry", "give_up", "give_up_all", "reject", "later", "fatal"]

@final
class History:
    """Records to read before the first job of a partition."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def before(self) -> int:
        """Offset behind the last record to read."""
    @property
    def records(self) -> int:
        """Number of records that fit into the memory."""
    @property
    def window(self) -> float:
        """Age in seconds, as seen from the last record, beyond which records are not needed."""
    @property
    def awaited(self) -> bool:
        """Whether the partition still waits. If not, its position has moved, or it is gone."""
    def learn(self, messages: Messages) -> None:
        """Learns the ids of records, in the order of their offsets."""
    def end(self) -> None:
        """Ends the wait: all records are learned."""
    def fail(self, error: str) -> None:
        """Records why the records cannot be read now."""

@final
class Dispatcher:
    """Keeps the ready lanes and hands jobs to workers. Serves all clients of one App, or one consumer."""

    def __new__(
        cls,
        *,
        interruptible: bool = False,
        events: Sequence[EventChannel] = ...,
        log: Callable[[list[LogEvent]], None] | None = None,
    ) -> Dispatcher:
        """`events`: channels of the events of jobs that hand out records, for `Job.unobserved`.

        `log`: called with a list of log events by threads that wait in a call; None: another thread watches `event_fd`.
        """
    def next(self, worker: Worker, done: Job | None = None) -> Job | None:
        """Completes `done` and waits for the next job. `None`: the worker must end, because the dispatcher has stopped
        or the number of workers was reduced.
        """
    def poll(self, worker: Worker, done: Job | None, timeout: float | None, max_messages: int) -> Job | None: ...
    def arm_poll_fd(self) -> int:
        """Arms and returns a descriptor that becomes readable when `poll` may find messages, a log event waits, or a
        client has failed.
        """
    def complete(self, job: Job) -> None:
        """Gives back a job whose handler returned, without taking another."""
    def fail(
        self,
        job: Job,
        failure_kind: _FailureKind,
        error_class: str,
        error: str,
        *,
        offset: int | None = None,
        delay: float = 0.0,
    ) -> Decision:
        """Gives back a job whose handler raised. "give_up": the route does not retry the exception;
        "give_up_all": nor is any record more at fault than another one; "later": run again after `delay` seconds,
        without counting; "fatal": never again in this process. `offset`: of the record that failed.
        """
    def await_outputs(self, job: Job) -> bool:
        """Returns whether records that a raising job has produced are in flight. If so, the job comes back as
        `returned` when they are settled, and must be failed then.
        """
    def set_producer(self, producer: Producer) -> None:
        """Sets the only producer of the handlers. Offsets wait for the records that handlers produce with it."""
    def set_decoder(self, route: int, topic: str, decoder: Callable[[bytes], object]) -> None:
        """Sets the decoder of payloads for a route's topic. The decoder is called with a value's bytes."""
    def set_workers(self, count: int) -> None:
        """Sets the number of workers. Workers with a higher number end when they ask for a job, and at once if they
        wait for one.
        """
    def start_async(self, name: str) -> int:
        """Starts the thread that decodes for an event loop, called `name` in reports. Returns a descriptor that is
        readable while `take_async_jobs` has jobs or cancellations.
        """
    def begin(self, job: Job) -> None:
        """Starts the job's clock: the event loop runs the first step of this job."""
    def loop_wait(self, job: Job | None = None) -> float | None:
        """Returns for how many seconds a callback has waited for the event loop; None: none waits, or there is no loop.

        `job`: the job that occupies the loop's thread; the probes name its handler until the loop turns.
        """
    def take_async_jobs(self) -> tuple[list[Job], list[int]]:
        """Returns the jobs to start, and the ids of running jobs to cancel because their partition has been revoked."""
    def async_stopped(self) -> bool:
        """Returns whether the event loop gets no more jobs. The descriptor becomes readable then, too."""
    def pause(self, job: Job, seconds: float | None) -> None:
        """Stops handing out records of the job's partition for `seconds`; None: until `resume`."""
    def resume(self, job: Job) -> None: ...
    def next_histories(self, timeout: float | None = None) -> list[History] | None:
        """Waits for records before committed offsets that deduplication has to read again, for `timeout` seconds (None:
        no limit), and takes them; None: `close_histories` was called.
        """
    def close_histories(self) -> None:
        """Ends `next_histories`."""
    def quiet(self) -> None: ...
    def stop(self) -> None: ...
    def release_workers(self) -> None: ...
    def running(self) -> list[_RunningJob]: ...
    def lanes(self) -> list[_Lane]: ...
    def counts(self) -> _Counts:
        """Returns running totals."""
    def event_fd(self) -> int: ...
    def drain_log_events(self) -> list[LogEvent]: ...
    def check(self) -> None: ...

@final
class Worker:
    """Decoder contexts and buffers with which one thread takes jobs. Only one thread at a time may use a worker.

    `number`, from 1: the worker ends when the number of workers falls below it. 0: the worker is not counted.
    """

    def __new__(cls, name: str, dispatcher: Dispatcher, number: int = 0) -> Worker: ...

@final
class Client:
    """One Kafka client: one consumer group, one "grete-net" thread."""

    def __new__(
        cls,
        config: Sequence[tuple[str, str]],
        dispatcher: Dispatcher,
        routes: Sequence[Route],
        *,
        stop_on_failed_partition: bool = False,
        transactional: tuple[Sequence[tuple[str, str]], float] | None = None,
        member_ids: tuple[str, str | None] | None = None,
        queue: int | None = None,
    ) -> Client:
        """`routes` empty: a low-level consumer, without hooks. `stop_on_failed_partition`: an unreadable partition of a
        route is an error of the dispatcher. `transactional`: jobs are exactly once; settings of the producer, and the
        interval of transactions in seconds. `member_ids`: id of this member, and that of a dead process whose place it
        takes over, for groups with the consumer protocol. `queue`: the group is a share group, of which this member
        processes so many records at once; None: it is none.
        """
    def queue(self) -> dict[str, int] | None:
        """Returns the counters of a share group by name; None: the group is none."""
    def flush_acks(self, timeout: float | None) -> None:
        """Waits until the leaders have answered all acknowledgements of a share group."""
    def set_concurrency(self, records: int) -> None:
        """Sets how many records of a share group this member processes at once."""
    def transactions(self) -> dict[str, Any] | None:
        """Returns the state of the client's transactions; None: its jobs are at least once."""
    def commit_marks(self, job: Job, timeout: float) -> None:
        """Commits the marked records of the job's partition. The commit is stored when this returns. Raises
        RevokedError when the partition no longer belongs to the job.
        """
    def subscribe(self, topics: Sequence[str]) -> None: ...
    def assign(self, partitions: Sequence[tuple[str, int, _StartOffset]]) -> None: ...
    def commit(self, offsets: Sequence[tuple[str, int, int]] | None, timeout: float | None) -> None: ...
    def committed(self, partitions: Sequence[tuple[str, int]], timeout: float | None) -> list[int | None]: ...
    def seek(self, topic: str, partition: int, to: _StartOffset) -> None: ...
    def pause(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def resume(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def assignment(self) -> list[tuple[str, int]]: ...
    def position(self, topic: str, partition: int) -> int | None: ...
    def watermarks(self, topic: str, partition: int) -> tuple[int, int] | None: ...
    def list_offsets(self, partitions: Sequence[tuple[str, int, _StartOffset]], timeout: float | None) -> list[int]: ...
    def partitions(self, topic: str, timeout: float | None) -> list[int]: ...
    def wait_until_settled(self, ends: Sequence[tuple[str, int, int]], timeout: float, end_backoffs: bool) -> bool:
        """Waits until this client has its assignment and has processed it: each partition is read up to its end in
        `ends` (topic, partition, offset), and no record waits for a job, a backoff, a delay or the end of a pause.
        Returns False after `timeout` seconds. `end_backoffs`: backoffs end at once.
        """
    def wait_until_assigned(self, timeout: float) -> bool:
        """Waits until this client has its assignment, and the position of each of its partitions. Returns False after
        `timeout` seconds.
        """
    def leave_group_on_close(self) -> None:
        """Makes a static member leave its group on close. Otherwise the coordinator keeps its partitions for
        `session.timeout.ms`.
        """
    def close(self, timeout: float | None) -> None: ...
    def membership(self) -> dict[str, Any]:
        """Returns group, state ("stable", "joining", "assigned" and so on), since (seconds), ready, generation,
        partitions, and instance (None: no static member). Does not block.
        """
    def group_member(self) -> tuple[str, str, int, str | None]:
        """Returns group id, member id (empty: no member), generation (-1: none) and instance id. Does not block."""
    def user(self) -> str | None:
        """Returns the user as brokers name it, without `User:`; None: it is unknown."""
    def statistics(self) -> dict[str, Any]: ...

@final
class EventChannel:
    """Channel of one kind of event of one monitor. True while it has listeners."""

    def __new__(cls, name: str, report: Callable[[Event, object, Exception], object]) -> EventChannel:
        """`report` is called with the event, the listener that raised, and its exception."""
    @property
    def name(self) -> str:
        """Name of the event, such as "consumer.stalled"."""
    def __bool__(self) -> bool: ...
    def __len__(self) -> int:
        """Returns the number of listeners."""
    def emit(self, **payload: object) -> None:
        """Calls the listeners in the calling thread, in the order of their subscriptions. A listener that raises is
        reported, and the others are called all the same. Only an exception that is no `Exception` (`KeyboardInterrupt`)
        propagates.
        """
    def emit_deferred(self, make: Callable[..., dict[str, Any]], *args: object) -> None:
        """Calls the listeners like `emit`. The fields are what `make(*args)` returns, and are made when a listener
        first reads one: an event of each job would otherwise cost more than an empty job.
        """
    def emit_timed(
        self,
        make: Callable[[Job, Messages[Any], BaseException | None, float], dict[str, Any]],
        begin: float,
        job: Job,
        messages: Messages[Any],
        error: BaseException | None,
    ) -> None:
        """Calls the listeners like `emit_deferred`, with fields that `make(job, messages, error, time)` returns: `time`
        is the number of seconds since `begin`, a time of `time.monotonic()`.
        """
    def subscribe(self, listener: Callable[[Event], object]) -> None:
        """Calls `listener` with each event from now on, once more for each subscription."""
    def unsubscribe(self, listener: object) -> bool:
        """Ends the last subscription of `listener`; False if it has none."""
    def watch(self, watcher: Callable[[], object] | None) -> None:
        """Calls `watcher()` after each subscription and unsubscription, in the thread that made it. There is one
        watcher at a time; None ends it.
        """

@final
class Event:
    """One emitted event. All listeners of an event get the same object."""

    @property
    def name(self) -> str:
        """Name of the event."""
    @property
    def payload(self) -> MappingProxyType[str, Any]:
        """Fields of the event by name. Read-only."""
    @property
    def time(self) -> float | None:
        """Duration in seconds; None for an event without a duration."""
    @property
    def at(self) -> float:
        """Time of the emission: seconds since 1970, UTC."""
    def __getitem__(self, field: str, /) -> Any: ...
    def __contains__(self, field: object, /) -> bool: ...

@final
class Health:
    """Health of this process, reported and served by threads that need no GIL. In a forked child every use raises
    ForkedClientError.
    """

    def __new__(
        cls,
        dispatcher: Dispatcher,
        app: str = "",
        gil_timeout: float | None = None,
        not_ready_timeout: float | None = None,
        failed_partition: str = "readyz",
    ) -> Health:
        """Starts no thread: `report` and `serve` do.

        `app`: name of the App. `gil_timeout`: seconds that the GIL may be held. `not_ready_timeout`: seconds that a
        member may be without its place in its group. For both, None or infinite: no limit.

        The process is ready once the dispatcher has workers and all clients are ready: add the clients before workers
        start.
        """
    def add_client(self, client: Client) -> None:
        """Adds a client's membership and activity to the reports."""
    def add_producer(self, producer: Producer) -> None:
        """Adds a producer's activity to the reports, even after its end."""
    def set_missing(self, topics: list[tuple[str, str]]) -> None:
        """Sets the topics that are needed and do not exist, in place of those set before: (topic, text). The text says
        what needs the topic, and the cure.
        """
    def report(self, fd: int, interval: float, gil_probe: bool = True, shared_text: SharedText | None = None) -> None:
        """Writes reports to a pipe from now on, in a thread "grete-health" that needs no GIL;
        `grete._swarm.node.report` reads them. The process ends with status 3 as soon as the pipe has no reader any
        more.

        The first report is written at once, then one each `interval` seconds. Reports go to a duplicate of `fd`, the
        write end of a pipe. Neither descriptor blocks from now on, and when the pipe is full, reports are dropped and
        counted. `gil_probe`: a thread "grete-gil-probe" measures the wait for the GIL each time. `shared_text`: all
        metrics are published there each time. Raises ValueError for an invalid interval, GreteError for a descriptor
        that cannot be written to, RuntimeError the second time.
        """
    def report_to(self, producer: Producer, topic: str, key: bytes, facts: str, interval: float) -> None:
        """Writes reports of the process to a topic from now on, in a thread "grete-reports" that needs no GIL.

        The first report is written at once, then one each `interval` seconds, and a last one by `close`. A report has
        at most 2 KiB for each second of the interval, at least 4 KiB and at most 64 KiB; lanes without room are
        counted. `key`: key of all records. `facts`: JSON object that each report repeats. Never waits: without room in
        the producer a report is dropped, and counted. Raises ValueError for an invalid interval, RuntimeError the
        second time.
        """
    def set_stacks(self, stacks: list[tuple[str, str, float]]) -> None:
        """Sets the stacks of the next reports to a topic: (text, stack, time), the most important first. `text`
        describes the job; the time is in seconds since 1970.
        """
    def serve(self, listeners: list[int]) -> None:
        """Serves HTTP at these listening sockets from now on, in a thread "grete-probes" that needs no GIL: `/livez`,
        `/readyz`, `/metrics`, and `/` with everything. The thread duplicates the sockets; neither duplicates nor
        originals block from now on. A thread "grete-gil-probe" waits for the GIL once a second. Raises RuntimeError the
        second time.
        """
    def leave_to_parent(self) -> None:
        """Closes a forked child's copies of the probes' sockets and of the pipe for reports. This is the only use in a
        child. Elsewhere it does nothing.
        """
    def metrics(self) -> str:
        """Returns all metrics in Prometheus' text format 0.0.4."""
    def families(self) -> list[_Family]:
        """Returns all metrics as objects: (name, kind, help, samples) of each metric. A sample is (labels, value).

        Kind: "counter", "gauge" or "histogram". Counts are int, other values float. The value of a histogram is
        (buckets, sum, count). Buckets are pairs of an upper bound, the last one infinite, and the number of values up
        to that bound. Unknown values are left out.
        """
    def close(self) -> None:
        """Ends all threads. A second call does nothing. The end of the interpreter calls it at the latest."""

_Buckets: TypeAlias = tuple[tuple[float, int], ...]
_Sample: TypeAlias = tuple[dict[str, str], int | float | tuple[_Buckets, float, int]]
_Family: TypeAlias = tuple[str, str, str, list[_Sample]]

@final
class HttpProtocol:
    """HTTP of one connection that closes after its first response, without the socket. Limits are those of a process'
    probes: 8192 bytes for request line and headers, no body.
    """

    def __new__(cls) -> HttpProtocol:
        """Creates the state of a new connection."""
    def feed(self, data: bytes) -> tuple[str, str] | bytes | None:
        """Takes received bytes. Returns method and path (without the query) of the request, or the bytes of a response
        that refuses the request. None: the request is incomplete. Call it no more after a request or a refusal.
        """
    def respond(self, status: int, content_type: str, body: bytes) -> bytes:
        """Returns the bytes of the response to the request, for a HEAD without the body."""
    def on_eof(self) -> bytes | None:
        """Handles the end of the input. Returns the bytes of a 400; None: no byte of a request came. Load balancers
        check in this way whether a port is open.
        """
    def on_timeout(self) -> bytes | None:
        """Handles the timeout of the request. Returns the bytes of a 408; None: no byte of a request came."""

@final
class SharedText:
    """One text in memory that this process shares with the process that it forks next; 512 KiB at most.

    Readers and writers never wait for each other, not even for a process that is stopped, dies or holds its GIL.
    """

    def __new__(cls) -> SharedText:
        """Creates an empty text. Raises GreteError if the system has no memory to give."""
    def exclude_from_later_forks(self) -> None:
        """Hides the text from children that this process forks from now on. (The child that was forked before has
        it.)
        """
    def publish(self, text: bytes) -> bool:
        """Replaces the text. If the new text is too long, as many families of metrics are kept as fit. One process
        publishes, others read. Returns False if this process does not share the text.
        """
    def read(self) -> tuple[bytes, float, bool] | None:
        """Returns the text, its age in seconds, and whether its end is missing. The text may be any bytes, because its
        writer may be broken. None: no text was published yet, or it cannot be read.
        """

@final
class Delivery:
    """Outcome of one record. In a forked child every use raises ForkedClientError."""

    @property
    def topic(self) -> str:
        """Topic of the record."""
    @property
    def partition(self) -> int:
        """Partition of the record."""
    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
    @property
    def outcome(self) -> Literal["written", "not_written", "unknown", "aborted"] | None:
        """Outcome of the record; `None` until it is known. With `acks=0` all records that were sent are "unknown".

        In a transaction, "written" turns into "aborted" when the transaction is aborted.
        """
    @property
    def offset(self) -> int | None:
        """Offset of the record; `None` until it is known, and where no broker reports it (`acks=0`)."""
    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970 at which the broker appended the record, if the topic keeps that time
        (`message.timestamp.type=LogAppendTime`); `None`: the topic keeps the record's own timestamp.
        """
    @property
    def error(self) -> DeliveryError | None:
        """Reason why the record was not written, or why its outcome is unknown; `None` otherwise."""
    @property
    def acknowledged_at(self) -> float | None:
        """Time at which the outcome became known, in seconds of `time.monotonic()`; `None` until then."""
    def wait(self, timeout: float | None = None) -> Self:
        """Waits until the outcome is known, at most `timeout` seconds (None: no limit), and returns itself.

        The batch is sent at once. Raises DeliveryError, or TimeoutError when the time is up: the record is still in
        flight then, and the caller may wait again. Ctrl-C works.
        """
    def __await__(self) -> Generator[Any, None, Self]:
        """Waits in an event loop until the outcome is known, and returns itself. The batch lingers (`linger.ms`).

        Raises DeliveryError. A cancelled wait changes nothing: the record is delivered all the same.
        """

@final
class Deliveries:
    """Outcomes of many records, in their order: a sequence of `Delivery` objects made on access."""

    @property
    def done(self) -> bool:
        """Whether all outcomes are known."""
    @property
    def errors(self) -> list[tuple[int, DeliveryError]]:
        """Failures so far: (index, error)."""
    def wait(self, timeout: float | None = None) -> Self:
        """Waits until all outcomes are known, at most `timeout` seconds (None: no limit), and returns itself.

        Raises DeliveryError for the first record that failed (`errors` has all of them), or TimeoutError.
        """
    @property
    def partitions(self) -> list[int]:
        """Partitions of the records, in order."""
    def __await__(self) -> Generator[Any, None, Self]:
        """Waits in an event loop until all outcomes are known, and returns itself. Raises the errors of `wait`."""
    def _pending(self) -> Delivery | None:
        """Returns the first delivery whose outcome is not known; None: all outcomes are known."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Delivery: ...
    def __iter__(self) -> DeliveriesIterator: ...

@final
class DeliveriesIterator:
    """Iterates over `Deliveries`."""

    def __iter__(self) -> DeliveriesIterator: ...
    def __next__(self) -> Delivery: ...

class _TypedProducer:
    """Interface of all producers. A topic is a name, with bytes, or a `grete.Topic`, which encodes keys and values.

    As the annotation of a handler's parameter it is the producer of the job: see `Consumer.producer`.
    """
    @overload
    def produce(
        self,
        topic: _Topic[_K, _V],
        value: _V | None,
        *,
        key: _K | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp: _Timestamp | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery: ...
    @overload
    def produce(
        self,
        topic: str,
        value: _Bytes | None,
        *,
        key: _Bytes | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp: _Timestamp | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Takes a record and returns at once. The record is sent when its batch is full or has lingered (`linger.ms`).

        `value` None is a tombstone. `timestamp` is milliseconds since 1970 UTC, or a datetime (a naive one is local
        time); the default is now. `on_delivery(delivery)` runs in a thread that calls produce, poll, flush or close.

        Waits, up to `max.block.ms`, only while `buffer.memory` is full or the topic is new. In an event loop a record
        of a new topic waits in the producer's memory instead, as long at most. Its delivery then has the error: code
        UNKNOWN_TOPIC_OR_PARTITION if there is no such topic. Raises BufferFullError, UnknownTopicError,
        RecordTypeError, EncodeError, RecordTooLargeError, ClosedError.
        """
    @overload
    def produce_sync(
        self,
        topic: _Topic[_K, _V],
        value: _V | None,
        *,
        key: _K | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp: _Timestamp | None = None,
        timeout: float | None = None,
    ) -> Delivery: ...
    @overload
    def produce_sync(
        self,
        topic: str,
        value: _Bytes | None,
        *,
        key: _Bytes | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp: _Timestamp | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        """Same as `produce(...).wait(timeout)`: sends at once and waits for the outcome. Raises the errors of both."""
    @overload
    def produce_many(
        self,
        topic: _Topic[_K, _V],
        records: Iterable[_V | _OutgoingRecord[_V] | None] | Messages,
        *,
        key: _K | None = None,
        keys: Sequence[_K | None] | None = None,
        partition: int | None = None,
        timestamp: _Timestamp | None = None,
    ) -> Deliveries: ...
    @overload
    def produce_many(
        self,
        topic: str,
        records: Iterable[_Record] | Messages | _ArrowArray | _ArrowStream,
        *,
        key: _Bytes | None = None,
        keys: Sequence[_Bytes | None] | None = None,
        partition: int | None = None,
        timestamp: _Timestamp | None = None,
    ) -> Deliveries:
        """Takes many records in one call; all are checked before the first one is taken.

        `records`: values (bytes-like or None), or tuples (key, value), (key, value, headers) or (key, value, headers,
        timestamp); with a `grete.Topic` values of its type, or `grete.Record` objects. Or `grete.Messages`: keys,
        values, headers and timestamps are kept, and partitions are chosen anew. Or any object that exports Arrow: a
        column of values, or columns value, key, timestamp, partition and headers, of which only value is required.

        `keys`: one key for each value. `key` is for records without one, `partition` and `timestamp` are for all.

        Raises the errors of `produce`. When some records have been taken by then, the error's `deliveries` has these.
        """
    @overload
    async def send(
        self,
        topic: _Topic[_K, _V],
        value: _V | None,
        *,
        key: _K | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp: _Timestamp | None = None,
    ) -> Delivery: ...
    @overload
    async def send(
        self,
        topic: str,
        value: _Bytes | None,
        *,
        key: _Bytes | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp: _Timestamp | None = None,
    ) -> Delivery:
        """Runs `produce` for asyncio: returns when the outcome is known, and never blocks the loop.

        Waits, up to `max.block.ms`, for room and for the topic's metadata. Raises DeliveryError, BufferFullError,
        UnknownTopicError, EncodeError. The cancellation of a task undoes nothing: a record that was taken is delivered.
        Records linger for `linger.ms`, so that many tasks share a batch.
        """
    def flush(self, timeout: float | None = None) -> None:
        """Sends all records without lingering and waits until every outcome is known, at most `timeout` seconds.

        The callbacks of `on_delivery` have run then. Raises TimeoutError with the number of pending records. Deliveries
        report failures; this call does not.
        """

@disjoint_base
class Producer(_TypedProducer):
    """Native part of `grete.client.Producer`: one Kafka producer, one "grete-producer" thread."""

    def __new__(
        cls,
        config: Sequence[tuple[str, str]],
        log: Callable[[list[LogEvent]], None],
        partitioner: Callable[[str, Any, int], int] | None = None,
        memory: _TestingLog | None = None,
    ) -> Self:
        """`memory`: the log of a test, to which all records are written instead of brokers."""
    @property
    def max_block(self) -> float:
        """Longest wait of a call for room and for metadata, in seconds."""
    def poll(self, timeout: float | None = 0.0) -> int:
        """Runs callbacks that are due, waiting for the first of them at most `timeout` seconds (None: no limit).

        Returns how many were run. Exceptions of callbacks are logged. Records are sent without this call, too.
        """
    def partitions(self, topic: str, timeout: float | None = 30.0) -> int:
        """Returns the number of partitions of the topic. Raises UnknownTopicError, or TimeoutError when no broker
        answers.
        """
    def statistics(self) -> dict[str, Any]:
        """Returns counters: requests, batches, bytes_sent, retries, splits, written, not_written, unknown, aborted,
        reconnects, pending_records, unassigned_records (of these; they wait for the metadata of their topics),
        buffered_bytes. And login_failure: why the last login failed, or None.
        """
    def _transaction_call(
        self,
        name: str,
        timeout: float | None,
        group: tuple[str, str, int, str | None] | None = None,
        offsets: list[tuple[str, int, int]] = ...,
    ) -> None: ...
    def _is_transactional(self) -> bool: ...
    def _close(self, timeout: float) -> tuple[bool, dict[str, int], int, int]: ...
    def _fatal_error(self) -> GreteError | None: ...
    def _event_fd(self) -> int:
        """Returns a descriptor that is readable while log events wait."""
    def _now(self) -> int:
        """Returns the client's clock, in nanoseconds."""
    def _drain_log_events(self) -> list[LogEvent]: ...

@disjoint_base
class JobProducer(_TypedProducer):
    """Producer for the handlers of one consumer instance. The offsets of a job wait for the records that it takes."""

    def __new__(cls, producer: Producer, consumer: object, exactly_once: bool = False) -> Self:
        """`consumer`: the instance whose `_job` is the running job. `exactly_once`: whether its jobs are."""
    @property
    def _exactly_once(self) -> bool:
        """Whether the records of a job are staged, and committed with its offsets."""
    def _stage(
        self,
        topic: str,
        value: _Bytes | None,
        key: _Bytes | None,
        headers: _Headers | None,
        partition: int | None,
        timestamp: _Timestamp | None,
    ) -> Delivery:
        """Stages a record in the running job."""
    def _publish(self, topic: str, value: bytes | None, message: Message) -> None:
        """Takes a record with the key of `message`, and makes no `Delivery`."""
    def _try_publish(self, topic: str, value: bytes | None, message: Message) -> bool:
        """Takes a record like `_publish`, for an event loop, which must not wait. False: it would have to wait."""
    @property
    def _producer(self) -> Producer: ...
    def _add_output(self, delivery: Delivery) -> None:
        """Makes the job's offsets wait for a record that the producer has taken."""

@final
class AsyncioDeliveryWatcher:
    """Completions for one asyncio event loop: a descriptor for its selector, and the futures to set."""

    def __new__(cls, producer: Producer) -> AsyncioDeliveryWatcher: ...
    def fd(self) -> int: ...
    def add(self, delivery: Delivery, future: Future[None]) -> bool: ...
    def try_append(
        self,
        producer: Producer,
        since: int,
        last: bool,
        topic: str,
        value: _Bytes | None,
        key: _Bytes | None,
        headers: _Headers | None,
        partition: int | None,
        timestamp: _Timestamp | None,
    ) -> Delivery | None: ...
    def take_completed(self, producer: Producer) -> list[Future[None]]: ...

@final
class LogEvent:
    """Event for the log: a broker was lost, the group rebalanced."""

    @property
    def level(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def time(self) -> float:
        """Time of the event, in seconds since 1970."""
    @property
    def message(self) -> str: ...
    @property
    def fields(self) -> dict[str, Any]:
        """Facts of the message by name: text, and numbers for counts, partitions and offsets."""

@final
class Shutdown:
    """Shutdown of one run: begun by a signal or a call, with one deadline that holds even while a thread keeps the
    GIL.
    """

    def __new__(cls, dispatcher: Dispatcher, timeout: float) -> Shutdown: ...
    def begin(self, timeout: float | None = None) -> None: ...
    def exit_at_deadline(self, dump: int) -> None: ...
    def remaining(self) -> tuple[float, float, float, float] | None:
        """Returns the seconds left for (handlers, delivery, closing, everything); None before the shutdown has
        begun.
        """
    def add_client(self, client: Client) -> bool: ...
    def add_producer(self, producer: Producer) -> bool: ...
    def close_clients(self) -> tuple[bool, dict[str, int], int, int, list[tuple[str, Exception]]] | None:
        """Returns (committed, undelivered by topic, not written, unknown, groups not left)."""
    def finish(self) -> None: ...
    def fd(self) -> int: ...
    def wake(self) -> None: ...
    def drain_signals(self) -> list[int]: ...

@final
class SignalWatch:
    """Watches for signals in a thread that needs no GIL. The first of `stop_signals` begins the shutdown, and a second
    `stop_signals[0]` expedites it. `quiet` stops the hand-out of records. `dump` dumps stacks if the holder of the GIL
    does not release it.
    """

    def __new__(cls, stop: Shutdown, stop_signals: Sequence[int], quiet: int, dump: int) -> SignalWatch: ...
    def wakeup_fd(self) -> int: ...

@final
class SpanContext:
    """Trace and span id of a span of another process, as `Tracer.extract` found them in headers."""

    @property
    def trace_id(self) -> int:
        """128 bits, never 0."""
    @property
    def span_id(self) -> int:
        """64 bits, never 0."""
    @property
    def priority(self) -> int | None:
        """Sampling decision: 1 keep, 0 drop, 2 and -1 the same by the user's decision. None: not decided."""
    @property
    def origin(self) -> str:
        """Origin of the trace ("synthetics", "rum"); mostly empty."""

@final
class Span:
    """Unit of work, from `Tracer.start` to `finish`.

    Used as a context manager, a span is the parent of spans that begin inside. It finishes at the end of the block, and
    an exception that propagates marks it as an error. Changes after `finish` are ignored. A span that is released
    unfinished is not sent, and counted.
    """

    @property
    def trace_id(self) -> int:
        """128 bits, never 0."""
    @property
    def span_id(self) -> int:
        """64 bits, never 0."""
    @property
    def parent_id(self) -> int:
        """The parent's `span_id`; 0 without one."""
    @property
    def finished(self) -> bool: ...
    @property
    def context(self) -> SpanContext:
        """Context of the span, for other processes. It stays valid when the span is gone."""
    def set_tag(self, key: str, value: object) -> None:
        """Sets a tag, in place of one of the same key.

        Numbers become metrics (integers from 2**53 on become text), bools "true" and "false", other values
        `str(value)`. Keys are cut at 200 bytes, values at 25,000. Tags beyond 256 are left out. Cuts and omissions are
        counted.
        """
    def set_metric(self, key: str, value: float) -> None:
        """Sets a number, in place of one of the same key. NaN and infinities are left out, and counted."""
    def set_resource(self, resource: str) -> None:
        """Sets the resource: the object of the work, cut at 5,000 bytes."""
    def set_error(self, error: BaseException | None = None) -> None:
        """Marks the span as failed. Type, message and traceback of `error` become tags (`error.type` and so on)."""
    def link(self, target: Span | SpanContext, attributes: dict[str, str] | None = None) -> None:
        """Links the span to a related span that is not its parent. Links beyond 256 are left out."""
    def finish(self) -> None:
        """Ends the span now. A second call does nothing."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, class_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

@disjoint_base
class Tracer:
    """Native base of `grete.instrumentation.datadog.Tracer`."""

    def __new__(
        cls,
        service: str,
        env: str,
        version: str,
        agent: str,
        path: str | None,
        headers: Sequence[tuple[str, str]],
        resource: Sequence[tuple[str, str]] | None,
        language: tuple[str, str],
        max_spans: int,
        max_bytes: int,
        interval: float,
        timeout: float,
    ) -> Self:
        """`resource`: OTLP with these resource attributes; None: Datadog's format. `path` is appended to the path of
        the agent's URL; None: Datadog's usual path.
        """
    def start(
        self,
        name: str,
        *,
        resource: str | None = None,
        service: str | None = None,
        span_type: str | None = None,
        parent: Span | SpanContext | EllipsisType | None = ...,
    ) -> Span:
        """Begins a span now.

        `name` is the kind of work ("kafka.consume"), `resource` its object (default: the name), `span_type` one of
        Datadog's types ("worker", "queue", "web"). `parent` defaults to the current span; None begins a new trace.
        """
    @staticmethod
    def current() -> Span | None:
        """Returns the span whose `with` block runs, in this thread or asyncio task."""
    def extract(
        self, headers: Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
    ) -> SpanContext | None:
        """Returns the span in trace headers: Datadog's own have precedence over W3C's `traceparent`. Names are matched
        without case.

        Headers that cannot be parsed are left out and counted; they never raise.
        """
    def headers(self, span: Span | SpanContext | None = None) -> list[tuple[str, bytes]]:
        """Returns trace headers for a span, by default the current one; empty if there is none."""
    def on_job_started(self, occurred: Event) -> None:
        """Begins the span of a job that is about to run. It is the current span until the job has ended."""
    def on_job_finished(self, occurred: Event) -> None: ...
    def _begin_message(self, occurred: Event) -> None: ...
    def _end_message(self, occurred: Event) -> None: ...
    def statistics(self) -> _TraceStatistics: ...
    def flush(self, timeout: float = 5.0) -> bool:
        """Waits, `timeout` seconds at most, until all spans whose traces are finished are sent or dropped."""
    def close(self, timeout: float = 5.0) -> bool:
        """Sends all finished spans, within `timeout` seconds, and ends the thread. False: the time was up, and the rest
        is dropped.

        A failing agent is tried once, without a wait. Spans that finish later are dropped, and counted.
        """

def fork_generation() -> int: ...
def route_defaults() -> dict[str, int]:
    """Returns the defaults of a route's limits, by setting. `max_bytes` is in bytes, the others count records."""

def broker_features(release: str | None = None) -> list[tuple[str, tuple[int, int] | None]]:
    """Returns the APIs of Kafka's clients, with the lowest and highest version that embedded brokers answer as a
    release of Kafka; None: not implemented.
    """

def dev_certificates(hosts: Sequence[str]) -> tuple[str, str, str, str, str]:
    """Makes an authority and certificates for development, in PEM. Returns those of the authority, of brokers with
    these hosts, its key, of a client, and its key. Raises BrokerError for a host that no certificate can have.
    """

def client_certificate_dates(config: Sequence[tuple[str, str]]) -> tuple[int, int] | None:
    """Returns from when until when the certificate of a client with these settings is valid, in seconds since 1970;
    None: it has none. Raises ConfigError.
    """

def server_certificate_dates(
    config: Sequence[tuple[str, str]], host: str, address: str, port: int, timeout: float
) -> tuple[int, int] | None:
    """Makes one handshake with the server of `host` at `address`, for up to `timeout` seconds. Returns from when until
    when its certificate is valid, in seconds since 1970; None: it has shown none. Raises ConfigError.
    """

def die_with_parent() -> bool: ...
def is_subreaper() -> bool: ...
def map_blocks_from(bytes: int) -> bool:  # noqa: A002
    """Makes malloc return each block of at least `bytes` to the system as soon as it is freed. Returns False where
    malloc cannot.
    """

def needed_acl(operation: str, kind: str, name: str, user: str | None) -> str:
    """Returns which ACL a client needs, with the command that creates it. `kind`: "topic" or "group"."""

def one_line(text: str) -> str:
    """Returns a text that others wrote on one line, with control characters escaped, for a line of the log or an
    error.
    """

def config_entries(
    pairs: Sequence[tuple[str, str]], role: Literal["consumer", "producer", "admin"] = "consumer"
) -> list[tuple[str, str, bool]]: ...

@final
class _TestingLane:
    """Assigned partition that a test feeds by hand, for tests and benchmarks of everything behind the network."""

    def __new__(
        cls, dispatcher: Dispatcher, route: Route, topic: str, partition: int, position: int = 0
    ) -> _TestingLane: ...
    def push(self, data: bytes) -> None:
        """Pushes whole record batches, in the form that a broker sends."""
    def seek(self, position: int) -> None:
        """Moves the position, as a seek does. What was pushed and not handed out is dropped: push again from there
        on.
        """
    def done(self, offsets: Sequence[int]) -> list[int]:
        """Returns those of the ascending `offsets` that are done. Empty after the partition is lost or abandoned."""
    def revoke(self, lost: bool = False) -> None:
        """Revokes the partition; `lost`: another member has it already."""
    def abandon(self) -> None:
        """Lets the time to give up the partition run out."""
    def committable(self) -> int | None:
        """Returns the offset that could be committed now; None: no change since the last call."""

@final
class _TestingLog:
    """Records that a producer without brokers has written."""

    def __new__(cls, partitions: Mapping[str, int], refusals: Mapping[str, int | None]) -> _TestingLog:
        """`partitions`: number of partitions by topic; other topics have one. `refusals`: number of records that a
        topic refuses, the first ones; None: all.
        """
    def refused(self) -> dict[str, int]:
        """Returns the number of records that each topic has refused; a topic without such records is not there."""
    def take(self) -> list[Messages]:
        """Returns the records that were written since the last call, in the order of writing."""

@final
class _TestingStepper:
    """Takes jobs of one pool from a dispatcher on a virtual clock, and advances that clock. For one thread."""

    def __new__(cls, *, events: Sequence[EventChannel] = ..., event_loop: bool = False) -> _TestingStepper:
        """`events`: see `Dispatcher`. `event_loop`: takes jobs of asynchronous handlers, else those of worker
        threads.
        """
    @property
    def dispatcher(self) -> Dispatcher:
        """Dispatcher whose jobs this object takes."""
    def take(self, done: Job | None = None) -> Job | None:
        """Completes `done` and returns the next job; None: no job is ready now."""
    @property
    def time(self) -> float:
        """Seconds of virtual time since the start."""
    @property
    def wall_clock_ms(self) -> int:
        """Milliseconds since 1970 on the wall clock, which advances with the virtual time."""
    def advance(self, time: float) -> None:
        """Advances the clock to `time` in seconds since the start, and makes all jobs ready that are due by then."""
    def timers(self) -> tuple[float | None, int, int]:
        """Returns the timers that are set: the time of the next one (None: there is none), how many units wait for the
        backoff after a failure, and how many other timers lead to records (delays, pauses, rate limits). Ticks are in
        neither number.
        """

def _testing_decode(
    data: bytes,
    topic: str,
    partition: int,
    high_watermark: int = 0,
    decoder: Callable[[bytes], object] | None = None,
    payloads: Sequence[object | None] | None = None,
) -> Messages:
    """Decodes whole record batches. `payloads`: the payloads of the records, which are not decoded then; None in the
    list: this record is decoded. Raises ValueError.
    """

def _testing_encode(
    records: Sequence[tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
) -> bytes:
    """Encodes records with ascending offsets: offset, timestamp in milliseconds, key, value, headers. Raises
    ValueError.
    """

def avro_columns(messages: Messages, codec: AvroCodec | Callable[[int], AvroCodec]) -> ArrowColumns:
    """Decodes the values of `messages` into columns, one row for each record.

    The columns are those of the first codec's reader schema; other writers are resolved to it. A record without a value
    (a tombstone) is a row of nulls.

    Args:
        codec: an `AvroCodec` for values without a header, or a function that returns the `AvroCodec` of a schema id,
            for values that begin with a zero byte and the id.

    Raises `DecodeError` with the record that does not decode, and ValueError for a schema that Arrow has no types for.
    """

def aggregate_metrics(
    nodes: list[tuple[int, SharedText | None]], own: list[tuple[str, list[str], float]], oldest: float
) -> bytes:
    """Returns the metrics of all nodes of a swarm and the supervisor's own, in Prometheus' text format 0.0.4.

    Args:
        nodes: number of each node, and its shared text if it has one.
        own: name, values of the labels (in the number and order of the names in `metric_descriptors`), value.
        oldest: limit of a text's age in seconds. Older texts are left out, and so are texts that Grete cannot have
            written.

    Raises ValueError if `own` has a metric that is not in `metric_descriptors`.
    """

def metric_descriptors() -> list[tuple[str, str, str, list[str]]]:
    """Returns all metrics: name, kind ("counter", "gauge", "histogram"), help, names of labels.

    The supervisor of a swarm puts `node` before the labels of its nodes' metrics.
    """
