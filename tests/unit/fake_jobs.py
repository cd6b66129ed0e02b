"""Jobs, and a dispatcher that hands them out, made up for tests of what runs them."""

import itertools
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grete
from grete import _native
from grete._processing.engine.run_control import JobThread
from tests.unit.record_batches import Record, batch

_ids = itertools.count(1)


def messages_of(*values: bytes | None, first: int = 5, topic: str = "orders", partition: int = 3) -> grete.Messages:
    """Records at offsets `first`, `first` + 1, ..."""
    records = [Record(first + at, value) for at, value in enumerate(values)]
    return _native._testing_decode(batch(records), topic, partition)


def some() -> grete.Messages:
    return messages_of(b"a", b"b")


@dataclass(eq=False)
class FakeJob:
    """What runs jobs asks of them."""

    kind: str = "consume"
    lane: int = 1
    slot: int = 0
    route: int = 0
    topic: str = "orders"
    partition: int = 3
    attempt: int = 1
    lost: bool = False
    exactly_once: bool = False
    messages: grete.Messages | None = None
    failure_history: tuple[int, str, str, int, int] | None = None
    failing: int | None = None
    heard: bool = False
    returned: bool = False
    pending_outputs: int = 0
    marks: list[tuple[object, bool]] = field(default_factory=list)
    done_rows: int = 0
    id: int = field(default_factory=lambda: next(_ids))

    @property
    def consumes(self) -> bool:
        return self.kind == "consume" and not self.returned

    @property
    def unobserved(self) -> bool:
        return self.consumes and not self.heard

    def mark(self, x: object, through: bool) -> int:
        self.marks.append((x, through))
        return 1

    def mark_all(self) -> int:
        self.marks.append(("all", False))
        return 0 if self.messages is None else len(self.messages)

    def delivery_error(self) -> grete.DeliveryError | None:
        return None

    def failed_offset(self, error: BaseException | None = None) -> int | None:
        return self.failing

    def progress(self, rows: int) -> None:
        self.done_rows = rows

    def should_yield(self) -> bool:
        return False

    def each(self, function: Callable[[grete.Message], object]) -> None:
        for message in self.messages or ():
            function(message)
            self.done_rows += 1


@dataclass
class FakeDecision:
    """What became of a failed job."""

    kind: str
    wait: float = 0.0
    attempt: int = 2
    rows: int = 1
    offset: int | None = None


class FakeDispatcher:
    """Hands out the given jobs to the worker that asks first, then reports the end. Failed ones are `decided` upon."""

    def __init__(self, jobs: list[Any] | None = None) -> None:
        self.jobs = jobs or []
        self.done: list[Any] = []
        self.failed: list[tuple[Any, str, str, str, int | None, float]] = []
        self.decision: FakeDecision | None = FakeDecision("retry", wait=0.4)
        self.workers = 0

    def next(self, worker: Any, done: Any) -> Any:
        if done is not None:
            self.done.append(done)
        return self.jobs.pop(0) if self.jobs else None

    def complete(self, job: Any) -> None:
        self.done.append(job)

    def fail(
        self, job: Any, action: str, kind: str, text: str, *, offset: int | None = None, delay: float = 0.0
    ) -> FakeDecision | None:
        self.failed.append((job, action, kind, text, offset, delay))
        return self.decision

    def await_outputs(self, job: Any) -> bool:
        return False

    def set_workers(self, count: int) -> None:
        self.workers = count


class FakeControl:
    """Notes the commands to the thread that runs the App."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.ended: queue.SimpleQueue[JobThread] = queue.SimpleQueue()

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)

    def on_exit(self, thread: JobThread) -> None:
        self.ended.put(thread)

    @property
    def stopping(self) -> bool:
        return False


@dataclass
class FakeDelivery:
    """What a broker has answered, or not."""

    topic: str
    partition: int = 0
    offset: int | None = 7
    error: Exception | None = None

    def wait(self, timeout: float | None = None) -> "FakeDelivery":
        if self.error is not None:
            error, self.error = self.error, None if isinstance(self.error, TimeoutError) else self.error
            raise error
        return self


class FakeProducer:
    """Notes what was produced; `errors` are raised, `answers` given, one after the other."""

    def __init__(self) -> None:
        self.produced: list[dict[str, Any]] = []
        self.errors: list[Exception | None] = []
        self.answers: list[Exception | None] = []
        self.missing = False

    def partitions(self, topic: str, timeout: float | None) -> int:
        if self.missing:
            raise grete.UnknownTopicError(f"no topic {topic}", topic=topic)
        return 1

    def produce(self, topic: str, value: bytes | None, **more: Any) -> FakeDelivery:
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.produced.append({"topic": topic, "value": value, **more})
        return FakeDelivery(topic, error=self.answers.pop(0) if self.answers else None)


class FakeClient:
    """Notes which jobs' marks were to be committed; raises `errors` one after the other."""

    def __init__(self) -> None:
        self.committed: list[Any] = []
        self.errors: list[Exception] = []

    def commit_marks(self, job: Any, timeout: float) -> None:
        self.committed.append(job)
        if self.errors:
            raise self.errors.pop(0)
