"""The event loop's thread, with a dispatcher made up here."""

import asyncio
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import grete
from grete._processing.engine import loop_thread as loops
from grete._processing.engine import running_jobs
from grete._processing.engine.failures import Failures
from grete._processing.engine.loop_thread import LoopThread
from tests.kafka import eventually
from tests.unit.fake_jobs import FakeControl, FakeDispatcher, FakeJob, some
from tests.unit.test_hook_runner import Rig


class LoopDispatcher(FakeDispatcher):
    """Has a descriptor, as the real one does."""

    def __init__(self) -> None:
        super().__init__()
        self.fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.lock = threading.Lock()
        self.cancellations: list[int] = []
        self.begun: list[FakeJob] = []
        self.stopped = False

    def start_async(self, name: str) -> int:
        return self.fd

    def begin(self, job: FakeJob) -> None:
        self.begun.append(job)

    def offer(self, *jobs: FakeJob) -> None:
        with self.lock:
            self.jobs += jobs
        os.eventfd_write(self.fd, 1)

    def cancel(self, job: FakeJob) -> None:
        with self.lock:
            self.cancellations.append(job.id)
        os.eventfd_write(self.fd, 1)

    def stop(self) -> None:
        self.stopped = True
        os.eventfd_write(self.fd, 1)

    def take_async_jobs(self) -> tuple[list[FakeJob], list[int]]:
        os.eventfd_read(self.fd)
        with self.lock:
            (jobs, self.jobs), (cancellations, self.cancellations) = (self.jobs, []), (self.cancellations, [])
        return jobs, cancellations

    def async_stopped(self) -> bool:
        return self.stopped


class Running:
    """A loop thread over one route."""

    def __init__(self, handler: Any, kind: str = "asyncio", **settings: Any) -> None:
        self.rig = Rig(handler, asynchronous=True, **settings)
        self.dispatcher = LoopDispatcher()
        self.control = FakeControl()
        either: Any = self.dispatcher
        self.failures = Failures({0: self.rig.route}, either, self.control)
        self.worker = LoopThread(either, lambda _blocking: self.rig.hooks, self.failures, self.control, kind)

    def settled(self, *jobs: FakeJob) -> None:
        """Wait until these jobs have been given back."""

        def all_back() -> bool:
            back = [*self.dispatcher.done, *(failed[0] for failed in self.dispatcher.failed)]
            return all(job in back for job in jobs)

        eventually(all_back, 30.0, "the jobs come back")


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(handler: Any, kind: str = "asyncio", **settings: Any) -> Running:
        one = Running(handler, kind, **settings)
        started.append(one)
        one.worker.start()
        return one

    yield begin
    for one in started:
        one.dispatcher.stop()
        one.worker.join(30)
        assert not one.worker.is_alive()
        assert one.control.ended.get(timeout=30) is one.worker
        os.close(one.dispatcher.fd)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop", "auto"])
def test_jobs_run_side_by_side_in_one_thread(start: Callable[..., Running], kind: str) -> None:
    gate = asyncio.Barrier(3)
    threads: set[str] = set()

    async def handler(messages: grete.Messages) -> None:
        threads.add(threading.current_thread().name)
        await gate.wait()  # none of them comes through alone

    run = start(handler, kind)
    jobs = [FakeJob(lane=lane, messages=some()) for lane in range(3)]
    run.dispatcher.offer(*jobs)
    run.settled(*jobs)
    assert threads == {"grete-loop"}
    assert run.dispatcher.failed == []
    assert run.control.errors == []
    assert run.worker.runner.tasks == {}


def test_a_failure_is_given_back_as_one(start: Callable[..., Running], caplog: pytest.LogCaptureFixture) -> None:
    async def handler(message: grete.Message) -> None:
        await asyncio.sleep(0)
        raise grete.Reject("bad", message=message)

    run = start(handler)
    job = FakeJob(messages=some())
    run.dispatcher.offer(job)
    run.settled(job)
    ((_, action, kind, _, offset, _),) = run.dispatcher.failed
    assert (action, kind, offset) == ("reject", "grete.errors.Reject", 5)
    eventually(lambda: caplog.records, 30.0, "the log line")


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), MemoryError()])
def test_what_ends_a_process_ends_the_app_and_not_the_loop(start: Callable[..., Running], error: BaseException) -> None:
    async def handler(messages: grete.Messages) -> None:
        await asyncio.sleep(0)
        if messages.first_offset == 5 and not run.control.errors:
            raise error

    run = start(handler)
    bad, good = FakeJob(messages=some()), FakeJob(messages=some())
    run.dispatcher.offer(bad)
    run.settled(bad)
    assert run.control.errors == [error]
    run.dispatcher.offer(good)
    run.settled(good)


def test_a_cancelled_job_has_not_failed(start: Callable[..., Running], caplog: pytest.LogCaptureFixture) -> None:
    inside = threading.Event()
    cleaned: list[str] = []

    async def handler(messages: grete.Messages) -> None:
        inside.set()
        try:
            await asyncio.Future()
        finally:
            cleaned.append("up")

    run = start(handler)
    job = FakeJob(messages=some())
    run.dispatcher.offer(job)
    assert inside.wait(30)
    run.dispatcher.cancel(job)
    run.settled(job)
    ((_, action, kind, text, _, _),) = run.dispatcher.failed
    assert (action, kind, text) == ("retry", "asyncio.exceptions.CancelledError", "cancelled")
    assert cleaned == ["up"]
    assert caplog.records == []


def test_a_job_that_is_cancelled_before_it_begins_comes_back(start: Callable[..., Running]) -> None:
    async def handler(messages: grete.Messages) -> None:
        raise AssertionError("it must not begin")

    run = start(handler)
    job = FakeJob(messages=some())
    with run.dispatcher.lock:
        run.dispatcher.jobs.append(job)
        run.dispatcher.cancellations.append(job.id)
    os.eventfd_write(run.dispatcher.fd, 1)
    run.settled(job)
    assert [failed[2] for failed in run.dispatcher.failed] == ["asyncio.exceptions.CancelledError"]
    assert run.control.errors == []


def test_a_cancellation_of_the_handlers_own_is_a_failure(
    start: Callable[..., Running], caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(messages: grete.Messages) -> None:
        raise asyncio.CancelledError("mine")

    run = start(handler)
    job = FakeJob(messages=some())
    run.dispatcher.offer(job)
    run.settled(job)
    assert [failed[1] for failed in run.dispatcher.failed] == ["retry"]
    eventually(lambda: caplog.records, 30.0, "the log line")
    assert "CancelledError: mine" in caplog.records[0].getMessage()


def test_what_one_job_sets_in_its_context_no_other_sees(start: Callable[..., Running]) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="fresh")
    seen: list[str] = []

    async def handler(messages: grete.Messages) -> None:
        seen.append(variable.get())
        variable.set("used")

    run = start(handler)
    for _ in range(3):
        job = FakeJob(messages=some())
        run.dispatcher.offer(job)
        run.settled(job)
    assert seen == ["fresh"] * 3


def test_the_end_cancels_what_is_left(start: Callable[..., Running]) -> None:
    inside = threading.Event()
    forgotten: list[asyncio.Task[None]] = []

    async def wait() -> None:
        await asyncio.Future()

    async def handler(messages: grete.Messages) -> None:
        forgotten.append(asyncio.create_task(wait()))
        inside.set()
        await asyncio.Future()

    run = start(handler)
    job = FakeJob(messages=some())
    run.dispatcher.offer(job)
    assert inside.wait(30)
    run.dispatcher.stop()
    run.worker.join(30)
    assert [failed[0] for failed in run.dispatcher.failed] == [job]
    assert forgotten[0].cancelled()


def test_an_uncaught_error_is_logged(start: Callable[..., Running], caplog: pytest.LogCaptureFixture) -> None:
    async def handler(messages: grete.Messages) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)

    run = start(handler)
    job = FakeJob(messages=some())
    run.dispatcher.offer(job)
    run.settled(job)
    eventually(lambda: caplog.records, 30.0, "the log line")
    assert caplog.records[0].__dict__["event"] == "loop.error"
    assert caplog.records[0].exc_info is not None


def test_a_broken_dispatcher_stops_the_app(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopDispatcher, "take_async_jobs", lambda _self: 1 / 0)
    run = start(lambda messages: None)
    run.dispatcher.offer()
    run.worker.join(30)
    assert [type(error) for error in run.control.errors] == [ZeroDivisionError]


def test_a_missing_uvloop_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    with pytest.raises(grete.ConfigError, match="pip install uvloop"):
        loops.new_loop("uvloop")
    loops.new_loop("auto").close()


def describe(run: Running, job: FakeJob, *, begun: bool = True) -> str:
    rows: Any = [
        {
            "topic": job.topic,
            "partition": job.partition,
            "route": 0,
            "slot": 0,
            "kind": "consume",
            "worker": "grete-loop",
            "handler": "handler",
            "begun": begun,
            "seconds": 1.25,
            "undelivered": None,
        }
    ]
    (found,) = running_jobs.describe_jobs(rows, {0: run.rig.route}, [], run.worker)
    return f"{found.text}\n{found.stack}"


def test_a_waiting_task_is_described_down_to_what_it_awaits(start: Callable[..., Running]) -> None:
    inside = threading.Event()

    async def deep() -> None:
        inside.set()
        await asyncio.Event().wait()  # deepest

    async def handler(messages: grete.Messages) -> None:
        await deep()

    run = start(handler)
    job = FakeJob(messages=some())
    run.dispatcher.offer(job)
    assert inside.wait(30)
    eventually(lambda: run.worker.runner.current is None, 30.0, "it waits")
    text = describe(run, job)
    assert "on orders[3] offsets 5..6 for 1.2 s in grete-loop\n" in text
    assert "await deep()" in text
    assert "# deepest" in text


def test_a_blocking_task_is_described_by_its_thread(start: Callable[..., Running]) -> None:
    inside, over = threading.Event(), threading.Event()

    async def handler(messages: grete.Messages) -> None:
        inside.set()
        over.wait(30)

    run = start(handler)
    job = FakeJob(messages=some())
    run.dispatcher.offer(job)
    assert inside.wait(30)
    try:
        assert "over.wait(30)" in describe(run, job)
    finally:
        over.set()


def test_a_job_that_waits_for_the_loop_has_not_begun(start: Callable[..., Running]) -> None:
    inside, over = threading.Event(), threading.Event()

    async def handler(messages: grete.Messages) -> None:
        inside.set()
        over.wait(30)

    run = start(handler)
    first, second = FakeJob(messages=some()), FakeJob(messages=some(), partition=4)
    run.dispatcher.offer(first, second)
    assert inside.wait(30)
    try:
        assert run.dispatcher.begun == [first]
        assert run.worker.runner.started_jobs == 1
        text = describe(run, second, begun=False)
        assert text.endswith("on orders[4] offsets 5..6 has not begun, and has waited for grete-loop for 1.2 s\n")
    finally:
        over.set()
    run.settled(first, second)
    assert run.dispatcher.begun == [first, second]


def test_the_loop_logs_nothing_of_its_own(start: Callable[..., Running], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def handler(messages: grete.Messages) -> None:
        await asyncio.sleep(0)

    run = start(handler)
    jobs = [FakeJob(lane=lane, messages=some()) for lane in range(20)]
    run.dispatcher.offer(*jobs)
    run.settled(*jobs)
    assert caplog.records == []
