"""Grete's native part. Private: import from `grete` and `grete.client`."""

from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import EllipsisType, MappingProxyType, TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias, TypedDict, final, overload

from typing_extensions import disjoint_base

from grete.errors import DeliveryError, GreteError

_Bytes: TypeAlias = bytes | bytearray | memoryview[Any]
_Headers: TypeAlias = (
    Mapping[str, _Bytes | None] | Sequence[tuple[str, bytes | None]] | Sequence[tuple[str, _Bytes | None]]
)
_Time: TypeAlias = int | datetime
_Record: TypeAlias = (
    _Bytes
    | tuple[_Bytes | None, _Bytes | None]
    | tuple[_Bytes | None, _Bytes | None, _Headers | None]
    | tuple[_Bytes | None, _Bytes | None, _Headers | None, _Time | None]
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

_Start: TypeAlias = int | Literal["earliest", "latest"] | datetime | None

_Topic: TypeAlias = tuple[str, int, int, list[list[int]], list[tuple[str, str]]]
_PartitionTold: TypeAlias = tuple[int, int | None, int, list[int], list[int]]
_TopicTold: TypeAlias = tuple[str, int, bool, list[_PartitionTold]]
_ClusterTold: TypeAlias = tuple[str, int | None, list[tuple[int, str, int, str | None]]]
_ConfigTold: TypeAlias = tuple[str, str | None, str, bool, bool]
_ListingTold: TypeAlias = tuple[str, str, str, str]
_MemberTold: TypeAlias = tuple[str, str | None, str, str, list[tuple[str, int]]]
_GroupTold: TypeAlias = tuple[str, str, str, str, str, int, list[_MemberTold]]

__all__ = [
    "Admin",
    "Board",
    "Client",
    "Decision",
    "Deliveries",
    "DeliveriesIterator",
    "Delivery",
    "Dispatcher",
    "Event",
    "Health",
    "Job",
    "LoopWatch",
    "Message",
    "Messages",
    "MessagesIterator",
    "Notice",
    "Occurred",
    "Producer",
    "Route",
    "SignalWatch",
    "Span",
    "SpanContext",
    "Stop",
    "Tracer",
    "Worker",
    "_TestingLane",
    "__version__",
    "_testing_decode",
    "config_entries",
    "die_with_parent",
    "fork_generation",
    "gather_metrics",
    "is_subreaper",
    "metrics_catalogue",
]

__version__: str

@final
class Admin:
    """One admin client, one "grete-admin" thread. Every call takes its time-out in seconds; None: for ever."""

    def __new__(cls, config: Sequence[tuple[str, str]]) -> Admin: ...
    def create_topics(
        self, topics: Sequence[_Topic], if_not_exists: bool, validate_only: bool, timeout: float | None
    ) -> list[bool]:
        """Whether each topic was created; False: it was there. `topics`: (name, partitions, replication factor, brokers
        of each partition, settings).
        """
    def delete_topics(self, names: Sequence[str], timeout: float | None) -> None: ...
    def create_partitions(self, totals: Sequence[tuple[str, int]], validate_only: bool, timeout: float | None) -> None:
        """`totals`: (name, how many in all)."""
    def topics(self, timeout: float | None) -> list[_TopicTold]:
        """All topics."""
    def describe_topics(self, names: Sequence[str], timeout: float | None) -> list[_TopicTold]: ...
    def cluster(self, timeout: float | None) -> _ClusterTold: ...
    def config(self, kind: str, name: str, timeout: float | None) -> list[_ConfigTold]:
        """All settings of a "topic", or of a "broker" by its number ("": of all brokers)."""
    def alter_config(
        self,
        kind: str,
        name: str,
        values: Sequence[tuple[str, str]],
        delete: Sequence[str],
        validate_only: bool,
        timeout: float | None,
    ) -> None: ...
    def groups(self, states: Sequence[str], timeout: float | None) -> tuple[list[_ListingTold], Exception | None]:
        """All groups in these states (none: in any), and the error that keeps some brokers' groups from being among
        them.
        """
    def describe_groups(self, groups: Sequence[str], timeout: float | None) -> list[_GroupTold]: ...
    def delete_groups(self, groups: Sequence[str], timeout: float | None) -> None: ...
    def remove_members(self, group: str, instances: Sequence[str], timeout: float | None) -> None: ...
    def committed(self, group: str, timeout: float | None) -> list[tuple[str, int, int]]:
        """All offsets that the group has committed."""
    def lag(self, group: str, timeout: float | None) -> list[tuple[str, int, int, int | None]]:
        """(topic, partition, committed offset, end of the partition)."""
    def offsets(self, places: Sequence[tuple[str, int, _Start]], timeout: float | None) -> list[int]:
        """The offsets that these places come to."""
    def reset_offsets(
        self, group: str, to: Sequence[tuple[str, int, _Start]], dry_run: bool, timeout: float | None
    ) -> list[tuple[str, int, int | None, int]]:
        """(topic, partition, committed before, committed then)."""
    def delete_offsets(self, group: str, partitions: Sequence[tuple[str, int]], timeout: float | None) -> None: ...
    def delete_records(self, before: Sequence[tuple[str, int, int]], timeout: float | None) -> list[int]:
        """The first offsets still there. `before`: (topic, partition, offset); -1: all records."""
    def take_notices(self) -> list[Notice]:
        """What is worth a log line since the last call."""
    def close(self, timeout: float | None) -> None:
        """Ends the thread; calls under way end, too. A second call does nothing."""

@final
class Message:
    """One record: a handle into its `Messages`; what you touch is made when you touch it.

    `key` and `value` are copies, so keeping them keeps nothing else. Keeping the message itself keeps the whole batch.
    """

    @property
    def topic(self) -> str:
        """The topic that the record was read from."""
    @property
    def partition(self) -> int:
        """The partition that the record was read from."""
    @property
    def offset(self) -> int:
        """The record's offset in its partition."""
    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970 UTC (the producer's time, or the broker's if the topic says so); -1: none."""
    @property
    def key(self) -> bytes | None:
        """The key, copied; `None` if the record has none."""
    @property
    def value(self) -> bytes | None:
        """The value, copied; `None` if the record has none (a tombstone)."""
    @property
    def payload(self) -> Any:
        """The value, decoded as the route's `payload=` says: at the first touch, then kept. `None` for a tombstone.

        Raises DecodeError from what the decoder raised, and NoPayloadError when there is no decoder.
        """
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers in the record's order, duplicates included, parsed on each access."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Messages(Sequence[Message]):
    """Records of one partition, in offset order. Offsets may have gaps: compaction, transactions, retries.

    Columns underneath, `Message` rows on demand. Hand it to polars, pyarrow or duckdb as it is: it exports Arrow
    struct{offset int64, timestamp timestamp[ms, UTC], key binary_view, value binary_view} without a copy. Whatever is
    zero-copy (this object, its slices and messages, Arrow arrays, memoryviews) keeps the whole fetched batch in memory;
    `values()`, `keys()` and the fields of a `Message` are copies and keep nothing.
    """

    @staticmethod
    def empty() -> Messages:
        """No messages: what `poll` answers when its time is up."""
    @property
    def topic(self) -> str:
        """The topic; "" for the empty answer of a `poll` whose time was up."""
    @property
    def partition(self) -> int:
        """The partition; -1 for the empty answer of a `poll` whose time was up."""
    @property
    def first_offset(self) -> int:
        """Offset of the first record. Raises IndexError when empty."""
    @property
    def last_offset(self) -> int:
        """Offset of the last record. Raises IndexError when empty."""
    @property
    def next_offset(self) -> int:
        """The offset to go on from once all of these are processed. -1 when empty."""
    @property
    def high_watermark(self) -> int:
        """The partition's high watermark (the offset that the next record will get) when this was fetched."""
    @property
    def offsets(self) -> memoryview[int]:
        """All offsets: a read-only memoryview of format "q", without a copy."""
    @property
    def timestamps(self) -> memoryview[int]:
        """All timestamps in ms since 1970 UTC (-1: none): a read-only memoryview of format "q", without a copy."""
    def values(self) -> list[bytes | None]:
        """All values, copied: a list of bytes or None."""
    def keys(self) -> list[bytes | None]:
        """All keys, copied: a list of bytes or None."""
    def payloads(self) -> list[Any]:
        """All payloads: a list of what each record's `payload` is. Raises DecodeError at the first that does not
        decode.
        """
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Message]: ...
    @overload
    def __getitem__(self, index: int, /) -> Message: ...
    @overload
    def __getitem__(self, index: slice, /) -> Messages: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The Arrow PyCapsule interface."""
    def __arrow_c_schema__(self) -> object:
        """The Arrow PyCapsule interface: the schema that `__arrow_c_array__` exports."""

@final
class MessagesIterator:
    """Iterates over `Messages`."""

    def __iter__(self) -> MessagesIterator: ...
    def __next__(self) -> Message: ...
    def __length_hint__(self) -> int: ...

@final
class Job:
    """One call of a hook, handed out by `Dispatcher.next` or `take_loop` and to be given back."""

    @property
    def id(self) -> int:
        """Never the same for two jobs of a dispatcher."""
    @property
    def route(self) -> int: ...
    @property
    def lane(self) -> int:
        """Unique per assignment of a partition; with `slot` the key of the consumer instance."""
    @property
    def slot(self) -> int:
        """Which of the lane's units; 0 for jobs of the whole lane (all but "consume" and "dead_letter")."""
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def attempt(self) -> int:
        """From 1; counts the runs of the first unmarked record."""
    @property
    def kind(self) -> Literal["consume", "dead_letter", "revoked", "shutdown", "eof", "tick"]: ...
    @property
    def plain(self) -> bool:
        """Its records are to be consumed, and when it was handed out nobody listened to that: most jobs."""
    @property
    def lost(self) -> bool:
        """Whether a revoked partition is already somebody else's."""
    @property
    def messages(self) -> Messages | None:
        """What to consume; `None` for hooks without records, and once the job has been given back."""
    @property
    def trouble(self) -> tuple[int, str, str, int, int] | None:
        """What the record of a "dead_letter" job has been through: attempts, error class, error message, first and last
        failure in ms since 1970. `None` for other jobs.
        """
    def each(self, function: Callable[[Message], object]) -> None:
        """`function(message)` for each message in order; each that returns is marked. Ends with the first exception,
        with RevokedError when the partition has gone meanwhile, and between two records when the job is `leaving`.
        """
    def each_payload(self, function: Callable[[Any], object]) -> None:
        """`function(payload)` for each message in order; each that returns is marked. Ends with the first exception,
        which is a DecodeError if a record does not decode, with RevokedError when the partition has gone meanwhile, and
        between two records when the job is `leaving`.
        """
    @property
    def leaving(self) -> bool:
        """Whether the partition is about to go, or the App to stop, so that records not begun are better left to the
        next owner. Never with offsets "at_most_once".
        """
    def cut_short(self) -> bool:
        """To be asked between two records: whether to stop here, because the job is `leaving`. After True its end means
        that what was told by `progress` is done, and nothing else.
        """
    def progress(self, rows: int) -> None:
        """The first `rows` records of the job are done: if it fails, they are not presented again. Raises
        RevokedError.
        """
    def culprit(self, error: BaseException | None = None) -> int | None:
        """Offset of the record at which the handler failed with `error`, if known: the one at which `each` stopped; the
        one that an unfinished iteration over the messages (or a slice of them) handed out last; the only one.
        """
    def mark(self, x: Message | Messages, through: bool = False) -> int:
        """Declares `x` processed; with `through` also all before it. How many records were not marked before. Raises
        RevokedError when the partition is not this job's any more.
        """
    def mark_all(self) -> int:
        """Declares all records of this job processed. How many were not marked before. Raises RevokedError."""

@final
class Decision:
    """What a failure leads to."""

    @property
    def kind(self) -> Literal["retry", "halve", "dead_letter", "later", "hold", "refused", "skipped"]: ...
    @property
    def wait(self) -> float:
        """Seconds until the records come again; 0 unless "retry" or "later"."""
    @property
    def attempt(self) -> int:
        """The coming run's number; 0 unless "retry"."""
    @property
    def rows(self) -> int:
        """How many records come again; 0 unless "retry" or "halve"."""
    @property
    def offset(self) -> int | None:
        """The record that goes to the dead letter topic; `None` unless "dead_letter"."""

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
        max_messages: int = 500,
        max_bytes: int = ...,
        max_wait: float = 0.0,
        max_in_flight: int = 4096,
        offsets: str = "auto",
        max_unmarked: int = 100_000,
        offset_map: bool = False,
        attempts: int | None = ...,
        backoff: tuple[float, float] = ...,
        jitter: float = 0.2,
        dead_letter: bool = False,
        priority: int = 0,
        rate_limit: tuple[int, float] | None = None,
        delay: float | None = None,
        expire: float | None = None,
        eof: bool = False,
        tick: float | None = None,
        stall_after: float | None = None,
        handler_timeout: float | None = None,
    ) -> Route:
        """`pool`: "threads" or "loop". `concurrency`: "partition", "key" or "unordered" (with `key_slots` units).
        `offsets`: "auto", "manual" or "at_most_once". `attempts`: None for ever. `backoff`: first and longest wait.
        `jitter`: a share of the wait. `rate_limit`: records and the seconds that they are for. Raises ValueError for
        what makes no sense.
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
    seconds: float

class _Lane(TypedDict):
    topic: str
    partition: int
    route: int
    handler: str
    state: str
    position: int | None
    committable: int | None
    high_watermark: int | None
    queued_bytes: int
    lag: int | None
    lag_seconds: float | None
    last_progress: float | None
    running_for: float | None
    stalled: bool
    attempt: int
    in_flight: int
    unmarked: int
    paused_for: float | None

class _Counts(TypedDict):
    jobs: int
    records: int
    failures: int
    dead_letters: int
    expired: int
    stalled: int

_Verdict: TypeAlias = Literal["retry", "give_up", "reject", "later", "fatal"]

@final
class Dispatcher:
    """Knows which lanes are ready and hands jobs to workers. For all clients of one App, or for one consumer."""

    def __new__(cls, *, interruptible: bool = False, events: Sequence[Event] = ...) -> Dispatcher:
        """`events`: those of jobs that hand out records, for `Job.plain`."""
    def next(self, worker: Worker, done: Job | None = None) -> Job | None:
        """Gives `done` back as done, waits for the next job. `None`: the worker is to end, because all is over or
        there are to be fewer workers.
        """
    def poll(self, worker: Worker, done: Job | None, timeout: float | None, max_messages: int) -> Job | None: ...
    def complete(self, job: Job) -> None:
        """Gives a job back that returned, without taking another."""
    def fail(
        self,
        job: Job,
        verdict: _Verdict,
        error_class: str,
        error: str,
        *,
        offset: int | None = None,
        delay: float = 0.0,
    ) -> Decision:
        """Gives a job back that raised. "give_up": not an exception that the route retries; "later": run again after
        `delay` seconds, without counting; "fatal": never again in this process. `offset`: of the record that failed.
        """
    def set_payload(self, route: int, topic: str, decoder: Callable[[bytes], object]) -> None:
        """What makes the payloads of a route's topic: called with a value's bytes."""
    def set_workers(self, count: int) -> None:
        """From now on there are so many workers: those with a higher number end when they come for a job, at once if
        they wait for one.
        """
    def start_loop(self) -> int:
        """Starts the thread that decodes for an event loop. A descriptor that is readable while `take_loop` has
        something to say.
        """
    def take_loop(self) -> tuple[list[Job], list[int]]:
        """The jobs to start, and the ids of running ones to cancel because their partition has gone."""
    def loop_stopped(self) -> bool:
        """Whether no job comes for the event loop any more; the descriptor becomes readable then, too."""
    def pause(self, job: Job, seconds: float | None) -> None:
        """Hands out nothing more of the job's partition for so long; None: until `resume`."""
    def resume(self, job: Job) -> None: ...
    def quiet(self) -> None: ...
    def stop(self) -> None: ...
    def release_workers(self) -> None: ...
    def running(self) -> list[_RunningJob]: ...
    def lanes(self) -> list[_Lane]: ...
    def counts(self) -> _Counts:
        """Running totals."""
    def event_fd(self) -> int: ...
    def take_notices(self) -> list[Notice]: ...
    def check(self) -> None: ...

@final
class Worker:
    """What one thread needs to take jobs: decoder contexts and buffers. One thread at a time.

    `number`, from 1: it ends when there are to be fewer workers. 0: it is not one of those that are counted.
    """

    def __new__(cls, name: str, dispatcher: Dispatcher, number: int = 0) -> Worker: ...

@final
class Client:
    """One Kafka client: one consumer group, one "grete-net" thread."""

    def __new__(cls, config: Sequence[tuple[str, str]], dispatcher: Dispatcher, routes: Sequence[Route]) -> Client:
        """`routes` empty: a low-level consumer, without hooks."""
    def commit_marks(self, job: Job, timeout: float) -> None:
        """Commits what is marked of the job's partition; it is stored when this returns. Raises RevokedError when the
        partition is not the job's any more.
        """
    def subscribe(self, topics: Sequence[str]) -> None: ...
    def assign(self, partitions: Sequence[tuple[str, int, _Start]]) -> None: ...
    def commit(self, offsets: Sequence[tuple[str, int, int]] | None, timeout: float | None) -> None: ...
    def committed(self, partitions: Sequence[tuple[str, int]], timeout: float | None) -> list[int | None]: ...
    def seek(self, topic: str, partition: int, to: _Start) -> None: ...
    def pause(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def resume(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def assignment(self) -> list[tuple[str, int]]: ...
    def position(self, topic: str, partition: int) -> int | None: ...
    def watermarks(self, topic: str, partition: int) -> tuple[int, int] | None: ...
    def list_offsets(self, partitions: Sequence[tuple[str, int, _Start]], timeout: float | None) -> list[int]: ...
    def partitions(self, topic: str, timeout: float | None) -> list[int]: ...
    def close(self, timeout: float | None) -> None: ...
    def membership(self) -> dict[str, Any]:
        """group, state ("stable", "joining", "assigned" and so on), since (seconds), steady, generation, partitions,
        and instance (None: no static member). Waits for nobody."""
    def statistics(self) -> dict[str, int]: ...

@final
class Event:
    """One kind of event of one monitor. True while somebody listens."""

    def __new__(cls, name: str, report: Callable[[Occurred, object, Exception], object]) -> Event:
        """`report` is called with what happened, the listener that has raised then, and what it raised."""
    @property
    def name(self) -> str:
        """As in "consumer.stalled"."""
    def __bool__(self) -> bool: ...
    def __len__(self) -> int:
        """How many listen."""
    def emit(self, **payload: object) -> None:
        """Calls the listeners, in the order of their subscriptions, here and now. One that raises is reported, and the
        others are called all the same; only what is no `Exception` (`KeyboardInterrupt`) comes out."""
    def subscribe(self, listener: Callable[[Occurred], object]) -> None:
        """Calls it with each event from now on, once more for each subscription."""
    def unsubscribe(self, listener: object) -> bool:
        """Ends one subscription, the last one; False if it has none."""
    def watch(self, watcher: Callable[[], object] | None) -> None:
        """Calls `watcher()` whenever somebody has come or gone, in the thread that did it. There is one at a time; None
        ends it."""

@final
class Occurred:
    """What a listener is called with. All listeners of one event get the same one."""

    @property
    def name(self) -> str:
        """The event's name."""
    @property
    def payload(self) -> MappingProxyType[str, Any]:
        """What is known about it, by field. Read-only."""
    @property
    def time(self) -> float | None:
        """Seconds that it took; None for an event that takes none."""
    @property
    def at(self) -> float:
        """When it was emitted: seconds since 1970, UTC."""
    def __getitem__(self, field: str, /) -> Any: ...
    def __contains__(self, field: object, /) -> bool: ...

@final
class Health:
    """How this process does, told to whoever asks. In a forked child every use raises ForkedClientError."""

    def __new__(
        cls,
        dispatcher: Dispatcher,
        app: str = "",
        gil_timeout: float | None = None,
        unsteady_timeout: float | None = None,
    ) -> Health:
        """Starts no thread: `report` and `serve` do.

        `app`: its name. `gil_timeout`: seconds that the GIL may be held; `unsteady_timeout`: seconds that a member may
        be without its place in its group; None or infinite: for ever.

        It is steady once the dispatcher has workers and all clients are steady: add them before workers start.
        """
    def add_client(self, client: Client) -> None:
        """From now on its membership and what it does is told, too."""
    def add_producer(self, producer: Producer) -> None:
        """From now on what it does is told, too, even after its end."""
    def report(self, fd: int, interval: float, canary: bool = True, board: Board | None = None) -> None:
        """Writes reports to a pipe from now on, in a thread "grete-health" that needs no GIL; `grete.swarm.report`
        reads them. The process ends with status 3 as soon as nobody reads from the pipe any more.

        The first report is written at once, then one each `interval` seconds. They go to a duplicate of `fd`, the
        write end of a pipe; neither blocks from now on, and when the pipe is full, reports are dropped and counted.
        `canary`: a thread "grete-canary" waits for the GIL each time, to tell how long that takes. `board`: all metrics
        are posted there each time. Raises ValueError for an interval that is none, GreteError for a descriptor that
        cannot be written to, RuntimeError the second time.
        """
    def serve(self, listeners: list[int]) -> None:
        """Answers HTTP at these listening sockets from now on, in a thread "grete-probes" that needs no GIL: `/livez`,
        `/readyz`, `/metrics`, and `/` with everything. It has duplicates of its own, which do not block; neither do the
        originals from now on. A thread "grete-canary" waits for the GIL once a second. RuntimeError the second time.
        """
    def leave_to_parent(self) -> None:
        """In a forked child, and the only use there: closes the child's copies of the sockets that the parent's thread
        answers at. Nothing elsewhere."""
    def metrics(self) -> str:
        """Everything that is measured, in Prometheus' text format 0.0.4."""
    def families(self) -> list[_Family]:
        """The same as objects: (name, kind, help, samples) of each metric. A sample is (labels, value).

        Kind: "counter", "gauge" or "histogram". Counts are int, other values float; a histogram's value is
        (buckets, sum, count), where buckets are pairs of an upper end, the last one infinite, and how many were at most
        that. What is not known is left out.
        """
    def close(self) -> None:
        """Ends all threads. A second call does nothing; the end of the interpreter does it at the latest."""

_Buckets: TypeAlias = tuple[tuple[float, int], ...]
_Sample: TypeAlias = tuple[dict[str, str], int | float | tuple[_Buckets, float, int]]
_Family: TypeAlias = tuple[str, str, str, list[_Sample]]

@final
class Board:
    """A place for one text, in memory that this process shares with the one that it forks next; 512 KiB at most.

    Whoever reads waits for nobody, and nobody waits for it: not for a process that is stopped, dies or holds its GIL.
    """

    def __new__(cls) -> Board:
        """An empty one. GreteError: the system has no memory to give."""
    def keep(self) -> None:
        """Children that this process forks from now on do not have it. (The one that was forked before has.)"""
    def post(self, text: bytes) -> bool:
        """The text takes the place of the last one; of one that is too long, as many families of metrics are kept as
        fit. One process posts, others read. False: this process has no part in it."""
    def read(self) -> tuple[bytes, float, bool] | None:
        """The last text (any bytes: who posted it may be mad), its age in seconds, whether its end is missing. None:
        nothing was posted yet, or it cannot be read."""

@final
class Delivery:
    """What became of one record. In a forked child every use raises ForkedClientError."""

    @property
    def topic(self) -> str:
        """Where the record goes."""
    @property
    def partition(self) -> int:
        """Where the record goes."""
    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
    @property
    def outcome(self) -> Literal["written", "not_written", "unknown"] | None:
        """What became of the record; `None` as long as nobody knows. With `acks=0` all that were sent are "unknown"."""
    @property
    def offset(self) -> int | None:
        """The record's offset; `None` until it is known, and where no broker has told (`acks=0`)."""
    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970 at which the broker appended the record, if the topic keeps that time
        (`message.timestamp.type=LogAppendTime`); `None`: it keeps the record's own.
        """
    @property
    def error(self) -> DeliveryError | None:
        """Why the record was not written, or why nobody knows."""
    @property
    def answered_at(self) -> float | None:
        """When the outcome became known, in seconds of `time.monotonic()`; `None` until then."""
    def wait(self, timeout: float | None = None) -> Self:
        """Waits until the outcome is known, at most `timeout` seconds (None: for ever), and returns itself.

        The batch is sent at once. Raises DeliveryError, or TimeoutError when the time is up: the record is still on its
        way then, and can be waited for again. Ctrl-C works.
        """

@final
class Deliveries:
    """What became of many records, in their order: a sequence of `Delivery`, made when looked at."""

    @property
    def done(self) -> bool:
        """Whether all outcomes are known."""
    @property
    def errors(self) -> list[tuple[int, DeliveryError]]:
        """What has failed so far: (index, error)."""
    def wait(self, timeout: float | None = None) -> Self:
        """Waits until all outcomes are known, at most `timeout` seconds (None: for ever), and returns itself.

        Raises DeliveryError for the first record that failed (`errors` has all of them), or TimeoutError.
        """
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Delivery: ...
    def __iter__(self) -> DeliveriesIterator: ...

@final
class DeliveriesIterator:
    """Iterates over `Deliveries`."""

    def __iter__(self) -> DeliveriesIterator: ...
    def __next__(self) -> Delivery: ...

@disjoint_base
class Producer:
    """The native part of `grete.client.Producer`: one Kafka producer, one "grete-producer" thread."""

    def __new__(
        cls,
        config: Sequence[tuple[str, str]],
        partitioner: Callable[[str, Any, int], int] | None = None,
    ) -> Self: ...
    @property
    def max_block(self) -> float:
        """How long calls wait for room and for metadata, in seconds."""
    def produce(
        self,
        topic: str,
        value: _Bytes | None,
        *,
        key: _Bytes | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp: _Time | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Takes a record and returns at once; it is sent when its batch is full or has lingered (`linger.ms`).

        `value` None is a tombstone. `timestamp` is milliseconds since 1970 UTC, or a datetime (a naive one is local
        time); without it, now. `on_delivery(delivery)` runs in a thread that calls produce, poll, flush or close.

        Waits, up to `max_block`, only while `buffer.memory` is full or the topic is new. Raises QueueFull,
        UnknownTopicError, RecordTypeError, RecordTooLargeError, ClosedError.
        """
    def produce_sync(
        self,
        topic: str,
        value: _Bytes | None,
        *,
        key: _Bytes | None = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp: _Time | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        """`produce(...).wait(timeout)`: sends at once and waits for the answer. Raises what both raise."""
    def produce_many(
        self,
        topic: str,
        records: Iterable[_Record] | Messages | _ArrowArray | _ArrowStream,
        *,
        key: _Bytes | None = None,
        partition: int | None = None,
        timestamp: _Time | None = None,
    ) -> Deliveries:
        """Takes many records in one call; all are checked before the first one is taken.

        `records`: values (bytes-like or None), or tuples (key, value), (key, value, headers) or (key, value, headers,
        timestamp); or `grete.Messages` (keys, values, headers and timestamps are kept, partitions chosen anew); or
        anything that exports Arrow: a column of values, or columns value, key, timestamp, partition and headers, of
        which only value is needed. `key` is for records without one, `partition` and `timestamp` are for all.

        Raises what `produce` raises. When some records have been taken by then, the error's `deliveries` has these.
        """
    def poll(self, timeout: float | None = 0.0) -> int:
        """Runs callbacks that are due, waiting for the first of them at most `timeout` seconds (None: for ever).

        Returns how many were run. What a callback raises is logged. Nobody has to call this for records to be sent.
        """
    def flush(self, timeout: float | None = None) -> None:
        """Sends everything without lingering and waits until every outcome is known, at most `timeout` seconds.

        Raises TimeoutError that says how many records are pending. Failures are told by deliveries, not here.
        """
    def partitions(self, topic: str, timeout: float | None = 30.0) -> int:
        """How many partitions the topic has. Raises UnknownTopicError, or TimeoutError when no broker answers."""
    def statistics(self) -> dict[str, int]:
        """Counters: requests, batches, bytes_sent, retries, splits, written, not_written, unknown, reconnects,
        pending_records, buffered_bytes.
        """
    def _close(self, timeout: float) -> tuple[bool, dict[str, int], int, int]: ...
    def _failure(self) -> GreteError | None: ...
    def _event_fd(self) -> int:
        """Readable while notices wait."""
    def _take_notices(self) -> list[Notice]: ...

@final
class LoopWatch:
    """What one asyncio event loop waits for: a descriptor for its selector, and the futures to set."""

    def __new__(cls, producer: Producer) -> LoopWatch: ...
    def fd(self) -> int: ...
    def add(self, delivery: Delivery, future: Future[None]) -> bool: ...
    def offer(
        self,
        producer: Producer,
        last: bool,
        topic: str,
        value: _Bytes | None,
        key: _Bytes | None,
        headers: _Headers | None,
        partition: int | None,
        timestamp: _Time | None,
    ) -> Delivery | None: ...
    def take(self, producer: Producer) -> list[Future[None]]: ...

@final
class Notice:
    """Something worth a log line: a broker went away, the group rebalanced."""

    @property
    def level(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def fields(self) -> dict[str, Any]:
        """The facts of the message, by name: text, and numbers for what counts or places something."""

@final
class Stop:
    """The stop of one run: begun by a signal or a call, with one deadline that holds whoever has the GIL."""

    def __new__(cls, dispatcher: Dispatcher, timeout: float) -> Stop: ...
    def begin(self, timeout: float | None = None) -> None: ...
    def exit_at_the_end(self, dump: int) -> None: ...
    def left(self) -> tuple[float, float, float, float] | None:
        """Seconds for (handlers, delivery, closing, everything)."""
    def add_client(self, client: Client) -> bool: ...
    def add_producer(self, producer: Producer) -> bool: ...
    def say_farewell(self) -> tuple[bool, dict[str, int], int, int, list[tuple[str, Exception]]] | None:
        """(committed, undelivered by topic, not written, unknown, groups not left)."""
    def over(self) -> None: ...
    def fd(self) -> int: ...
    def wake(self) -> None: ...
    def take_signals(self) -> list[int]: ...

@final
class SignalWatch:
    """Begins the stop at the first of `stop_signals`, hurries it at a second `stop_signals[0]`; `quiet` quiets; `dump`
    dumps stacks if nobody else can."""

    def __new__(cls, stop: Stop, stop_signals: Sequence[int], quiet: int, dump: int) -> SignalWatch: ...
    def wakeup_fd(self) -> int: ...

@final
class SpanContext:
    """Where in which trace a span of another process stands: what `Tracer.extract` found in headers."""

    @property
    def trace_id(self) -> int:
        """128 bits, never 0."""
    @property
    def span_id(self) -> int:
        """64 bits, never 0."""
    @property
    def priority(self) -> int | None:
        """Whether the trace is kept: 1 yes, 0 no, 2 and -1 the same by a user's word. None: nobody has decided."""
    @property
    def origin(self) -> str:
        """Where the trace began ("synthetics", "rum"); mostly empty."""

@final
class Span:
    """A piece of work, from `Tracer.start` to `finish`.

    As a context manager it is the parent of spans that begin inside, it finishes at the end, and an exception that
    passes makes it an error. What is set after `finish` is ignored. A span that is let go unfinished is not sent, and
    counted.
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
        """Its place, to be handed to others: it stays valid when the span has gone."""
    def set_tag(self, key: str, value: object) -> None:
        """A fact about it, in place of one of the same key.

        Numbers become metrics (whole ones from 2**53 on become text), bools "true" and "false", others what `str` says.
        Keys are cut at 200 bytes, values at 25,000; of more than 256 tags the newest are left out. That is counted.
        """
    def set_metric(self, key: str, value: float) -> None:
        """A number, in place of one of the same key. NaN and infinities are left out, and counted."""
    def set_resource(self, resource: str) -> None:
        """What the work is done to, cut at 5,000 bytes."""
    def set_error(self, error: BaseException | None = None) -> None:
        """It failed; of an exception the type, the message and the traceback become tags (`error.type` and so on)."""
    def link(self, target: Span | SpanContext, attributes: dict[str, str] | None = None) -> None:
        """It has to do with another span that is not its parent. Of more than 256 the newest are left out."""
    def finish(self) -> None:
        """It ends now. A second call does nothing."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, class_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

@disjoint_base
class Tracer:
    """What `grete.instrumentation.datadog.Tracer` is made of."""

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
        """`resource`: OTLP with these attributes of the resource; None: Datadog's format. `path` goes behind that of
        the agent; None: what is usual for Datadog.
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
        """A span begins now.

        `name` is the kind of work ("kafka.consume"), `resource` what it is done to (default: the name), `span_type`
        one of Datadog's types ("worker", "queue", "web"). `parent`: without it, the current span; None begins a new
        trace.
        """
    @staticmethod
    def current() -> Span | None:
        """The span whose `with` block runs, in this thread or asyncio task."""
    def extract(
        self, headers: Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
    ) -> SpanContext | None:
        """The span that headers tell of: Datadog's own go before W3C's `traceparent`. Names are matched without case.

        Headers that cannot be understood are left out and counted; they never raise.
        """
    def headers(self, span: Span | SpanContext | None = None) -> list[tuple[str, bytes]]:
        """Headers that tell of a span, of the current one by default; none if there is none."""
    def on_consumer_consume(self, occurred: Occurred) -> None:
        """A job is about to run: its span begins, and is the current one until it has ended."""
    def on_consumer_consumed(self, occurred: Occurred) -> None: ...
    def _begin_message(self, occurred: Occurred) -> None: ...
    def _end_message(self, occurred: Occurred) -> None: ...
    def statistics(self) -> _TraceStatistics: ...
    def flush(self, timeout: float = 5.0) -> bool:
        """Waits, `timeout` seconds at most, until all spans whose traces are finished are sent or dropped."""
    def close(self, timeout: float = 5.0) -> bool:
        """Sends what is there, within `timeout` seconds, and ends the thread. False: time was up, the rest is dropped.

        An agent that fails is tried once, not waited for. Spans that finish later are dropped, and counted.
        """

def fork_generation() -> int: ...
def die_with_parent() -> bool: ...
def is_subreaper() -> bool: ...
def config_entries(
    pairs: Sequence[tuple[str, str]], role: Literal["consumer", "producer", "admin"] = "consumer"
) -> list[tuple[str, str, bool]]: ...

@final
class _TestingLane:
    """An assigned partition that is fed by hand, for tests and benchmarks of everything behind the network."""

    def __new__(
        cls, dispatcher: Dispatcher, route: Route, topic: str, partition: int, position: int = 0
    ) -> _TestingLane: ...
    def push(self, data: bytes) -> None:
        """Whole record batches, as a broker would send them."""
    def revoke(self, lost: bool = False) -> None:
        """The partition goes to another member; `lost`: it has gone."""
    def abandon(self) -> None:
        """The time to give the partition up has run out."""
    def committable(self) -> int | None:
        """The offset that could be committed now; None: nothing since the last call."""

def _testing_decode(
    data: bytes, topic: str, partition: int, high_watermark: int = 0, decoder: Callable[[bytes], object] | None = None
) -> Messages: ...
def gather_metrics(
    nodes: list[tuple[int, Board | None]], own: list[tuple[str, list[str], float]], oldest: float
) -> bytes:
    """The metrics of all nodes of a swarm and the supervisor's own, in Prometheus' text format 0.0.4.

    Args:
        nodes: each node's number and its board, if it has one.
        own: name, values of the labels (as many and in the order as `metrics_catalogue` has their names), value.
        oldest: what was posted more than so many seconds ago is left out, like what Grete cannot have written.

    ValueError: `own` has what is not in the catalogue.
    """

def metrics_catalogue() -> list[tuple[str, str, str, list[str]]]:
    """All metrics there are: name, kind ("counter", "gauge", "histogram"), help, names of labels.

    The supervisor of a swarm puts `node` before the labels of what its nodes say.
    """
