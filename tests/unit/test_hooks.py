"""Consumer instances and their hooks, with jobs made up here."""

import contextlib
import gc
import logging
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import pytest

import grete
from grete import _core
from grete.processing.hooks import Hooks
from grete.processing.worker import Worker
from grete.routes import Route, make
from tests.unit.batches import Record, batch


@dataclass(eq=False)
class FakeJob:
    """What Hooks needs of a job."""

    kind: str = "consume"
    lane: int = 1
    route: int = 0
    topic: str = "orders"
    partition: int = 3
    attempt: int = 1
    lost: bool = False
    messages: grete.Messages | None = None
    marks: list[tuple[object, bool]] = field(default_factory=list)

    def mark(self, x: object, through: bool) -> int:
        self.marks.append((x, through))
        return 1

    def culprit(self, _error: BaseException) -> int | None:
        return None


def no_producer() -> grete.client.Producer:
    raise AssertionError("nobody produces here")


def some() -> grete.Messages:
    return _core._testing_decode(batch([Record(5, b"a"), Record(6, b"b")]), "orders", 3)


class Recorder(grete.Consumer):
    """Notes what was called on which instance."""

    calls: list[tuple[Any, ...]] = []  # noqa: RUF012
    fail: set[str] = set()  # noqa: RUF012

    def note(self, *what: object) -> None:
        Recorder.calls.append((*what, id(self)))
        if what[0] in Recorder.fail:
            raise RuntimeError(f"{what[0]} failed")

    def initialize(self) -> None:
        self.note("initialize", self.topic, self.partition, len(self.messages))

    def consume(self) -> None:
        self.note("consume", self.messages.values(), self.attempt)
        self.mark(self.messages[0], through=True)

    def revoked(self) -> None:
        self.note("revoked", self.lost)

    def shutdown(self) -> None:
        self.note("shutdown")


@pytest.fixture
def hooks() -> Hooks:
    Recorder.calls, Recorder.fail = [], set()
    return Hooks([make(0, ("orders",), Recorder, {})], no_producer)


def run(hooks: Hooks, job: FakeJob) -> None:
    hooks.run(job)  # type: ignore[arg-type]


def test_an_instance_lives_as_long_as_its_lane(hooks: Hooks) -> None:
    for job in (
        FakeJob(messages=some()),
        FakeJob(messages=some(), attempt=2),
        FakeJob(lane=2, partition=4, messages=some()),
        FakeJob("revoked", lost=True),
        FakeJob("shutdown", lane=2),
        FakeJob(lane=3, messages=some()),
    ):
        run(hooks, job)
    names = [call[0] for call in Recorder.calls]
    assert names == [
        "initialize",
        "consume",
        "consume",
        "initialize",
        "consume",
        "revoked",
        "shutdown",
        "initialize",
        "consume",
    ]
    one, other, third = (Recorder.calls[at][-1] for at in (0, 3, 7))
    assert [call[-1] for call in Recorder.calls] == [one, one, one, other, other, one, other, third, third]
    assert Recorder.calls[0][1:-1] == ("orders", 3, 0)
    assert Recorder.calls[2][1:-1] == ([b"a", b"b"], 2)
    assert Recorder.calls[5][1] is True
    assert len(hooks) == 1


def test_a_lane_that_never_ran_has_no_hooks(hooks: Hooks) -> None:
    run(hooks, FakeJob("revoked"))
    run(hooks, FakeJob("shutdown"))
    assert Recorder.calls == []


def test_marks_go_to_the_job(hooks: Hooks) -> None:
    job = FakeJob(messages=some())
    run(hooks, job)
    assert [(x.offset, through) for x, through in job.marks] == [(5, True)]  # type: ignore[attr-defined]


def test_a_failed_initialize_is_tried_on_a_new_instance(hooks: Hooks) -> None:
    Recorder.fail = {"initialize"}
    with pytest.raises(RuntimeError, match="initialize failed"):
        run(hooks, FakeJob(messages=some()))
    assert len(hooks) == 0
    Recorder.fail = set()
    run(hooks, FakeJob(messages=some()))
    assert [call[0] for call in Recorder.calls] == ["initialize", "initialize", "consume"]


@pytest.mark.parametrize("failing", [set(), {"consume"}])
def test_an_instance_keeps_no_messages(hooks: Hooks, failing: set[str]) -> None:
    Recorder.fail = failing
    kept: list[grete.Messages] = []

    class Keeper(Recorder):
        def consume(self) -> None:
            kept.append(self.messages[:1])
            super().consume()

    hooks = Hooks([make(0, ("orders",), Keeper, {})], no_producer)
    job = FakeJob(messages=some())
    with contextlib.suppress(RuntimeError):
        run(hooks, job)
    (consumer,) = hooks._consumers.values()
    assert len(consumer.messages) == 0
    assert consumer._job is None
    assert kept[0][0].value == b"a"


def test_a_failed_revoked_leaves_no_instance(hooks: Hooks) -> None:
    run(hooks, FakeJob(messages=some()))
    Recorder.fail = {"revoked"}
    with pytest.raises(RuntimeError):
        run(hooks, FakeJob("revoked"))
    assert len(hooks) == 0


def test_a_function_gets_the_messages() -> None:
    got: list[grete.Messages] = []
    hooks = Hooks([make(0, ("orders",), got.append, {})], no_producer)
    messages = some()
    run(hooks, FakeJob(messages=messages))
    assert got == [messages]


class FakeDispatcher:
    """Hands out the given jobs, then says that it is over."""

    def __init__(self, jobs: list[FakeJob]) -> None:
        self.jobs = jobs
        self.done: list[tuple[FakeJob | None, bool]] = []

    def next(self, _worker: object, done: FakeJob | None) -> FakeJob | None:
        if done is not None:
            self.done.append((done, False))
        return self.jobs.pop(0) if self.jobs else None

    def fail(self, job: FakeJob, verdict: str, error_class: str, error: str, *, offset: int | None = None) -> None:
        self.done.append((job, True))


class Control:
    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.ended: list[threading.Thread] = []

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)

    def ending(self, thread: threading.Thread) -> None:
        self.ended.append(thread)


def work(monkeypatch: pytest.MonkeyPatch, handler: Any, jobs: list[FakeJob]) -> tuple[FakeDispatcher, Control, Worker]:
    monkeypatch.setattr(_core, "Worker", lambda name, dispatcher, number: (name, dispatcher, number))
    dispatcher, control = FakeDispatcher(jobs), Control()
    routes: list[Route] = [make(0, ("orders",), handler, {})]
    worker = Worker(7, dispatcher, Hooks(routes, no_producer), control)  # type: ignore[arg-type]
    worker.start()
    worker.join(30)
    assert not worker.is_alive()
    assert control.ended == [worker]
    return dispatcher, control, worker


def test_a_worker_gives_each_job_back_with_its_outcome(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = iter([None, ValueError("no"), None])

    def handler(messages: grete.Messages) -> None:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome

    jobs = [FakeJob(messages=some(), attempt=number) for number in (1, 2, 3)]
    dispatcher, control, worker = work(monkeypatch, handler, list(jobs))
    assert dispatcher.done == [(jobs[0], False), (jobs[1], True), (jobs[2], False)]
    assert control.errors == []
    assert worker.name == "grete-worker-7"
    assert not worker.daemon
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.ERROR, "grete")
    assert "orders[3] offsets 5..6, attempt 2): ValueError: no" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError
    assert (record.__dict__["topic"], record.__dict__["first_offset"]) == ("orders", 5)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_what_ends_a_process_stops_the_app(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def handler(messages: grete.Messages) -> None:
        raise error

    job = FakeJob(messages=some())
    dispatcher, control, _ = work(monkeypatch, handler, [job])
    assert control.errors == [error]
    assert dispatcher.done == [(job, True)]


def test_a_broken_dispatcher_stops_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDispatcher, "next", lambda *_: 1 / 0)
    _, control, _ = work(monkeypatch, lambda messages: None, [])
    assert [type(error) for error in control.errors] == [ZeroDivisionError]


def test_consumers_go_with_their_hooks(hooks: Hooks) -> None:
    run(hooks, FakeJob(messages=some()))
    (consumer,) = hooks._consumers.values()
    gone = weakref.ref(consumer)
    del consumer
    run(hooks, FakeJob("shutdown"))
    gc.collect()
    assert gone() is None
