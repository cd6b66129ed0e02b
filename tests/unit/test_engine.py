"""The engine and its workers, with a dispatcher made up here."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import grete
from grete import _native
from grete._processing.engine.engine import Engine
from grete._processing.engine.worker import Worker
from grete._processing.instances.shared_producer import SharedProducer
from grete._routing.routes import make_route
from grete.errors import GreteError
from tests.kafka import eventually
from tests.unit.fake_jobs import FakeClient, FakeControl, FakeDecision, FakeDispatcher, FakeJob, some
from tests.unit.test_hook_runner import Rig

CONFIG = {"workers": 2, "leak_report": True, "loop": "asyncio"}


def no_producer(_producer: grete.client.Producer) -> bool:
    raise AssertionError("no test produces here")


class WaitingDispatcher(FakeDispatcher):
    """Has its workers wait until there are fewer, or it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()
        self.inside: set[int] = set()
        self.over = False

    def next(self, worker: Any, done: Any) -> Any:
        number: int = worker[2]
        with self.changed:
            self.inside.add(number)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.jobs or self.over or number > self.workers, 30)
            self.inside.discard(number)
            if not self.over and number <= self.workers and self.jobs:
                return self.jobs.pop(0)
            return None

    def set_workers(self, count: int) -> None:
        with self.changed:
            self.workers = count
            self.changed.notify_all()

    def offer(self, job: FakeJob) -> None:
        with self.changed:
            self.jobs.append(job)
            self.changed.notify_all()

    def stop(self) -> None:
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def running(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": "orders",
                "partition": 3,
                "route": 0,
                "slot": 0,
                "handler": "Slow.consume",
                "kind": "consume",
                "worker": "grete-worker-1",
                "begun": True,
                "seconds": 12.34,
                "undelivered": None,
            }
        ]

    def lanes(self) -> list[dict[str, Any]]:
        lane = {"topic": "orders", "partition": 3, "handler": "Slow.consume"}
        return [
            lane | {"stalled": True, "running_for": 31.26},
            lane | {"partition": 4, "stalled": False, "running_for": None},
        ]

    def counts(self) -> dict[str, int]:
        return {"jobs": 9}


class Slow(grete.Consumer):
    """Waits."""

    over = threading.Event()
    inside = threading.Event()

    def initialize(self) -> None:
        self.background(self.stopping.wait, 30)

    def consume(self) -> None:
        Slow.inside.set()
        Slow.over.wait(30)


@pytest.fixture
def dispatcher() -> WaitingDispatcher:
    return WaitingDispatcher()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, dispatcher: WaitingDispatcher) -> Iterator[Engine]:
    monkeypatch.setattr(_native, "Worker", lambda name, dispatcher, number: (name, dispatcher, number))
    Slow.over, Slow.inside = threading.Event(), threading.Event()
    routes = [make_route(0, ("orders",), Slow, {})]
    either: Any = dispatcher
    config: Any = CONFIG
    clients: Any = {0: FakeClient()}
    engine = Engine(routes, either, clients, SharedProducer({}, no_producer), config, FakeControl(), {0: "billing"})
    yield engine
    Slow.over.set()
    dispatcher.stop()
    engine.begin_shutdown(time.monotonic() + 30)
    for thread in engine.threads:
        thread.join(30)
    engine.stop_background(time.monotonic() + 30)


def names(engine: Engine) -> list[str]:
    return sorted(thread.name for thread in engine.threads)


def test_workers_come_and_go(engine: Engine, dispatcher: WaitingDispatcher) -> None:
    engine.start()
    assert names(engine) == ["grete-worker-1", "grete-worker-2"]
    engine.scale(5)
    eventually(lambda: dispatcher.inside == {1, 2, 3, 4, 5}, 30.0, "five workers")
    assert len(names(engine)) == 5
    engine.scale(1)
    eventually(lambda: names(engine) == ["grete-worker-1"], 30.0, "four have ended")
    engine.scale(3)
    eventually(lambda: dispatcher.inside == {1, 2, 3}, 30.0, "three workers")
    with pytest.raises(ValueError, match="one worker at least"):
        engine.scale(0)


def test_a_worker_that_was_dismissed_is_replaced_when_it_is_wanted_again(
    engine: Engine, dispatcher: WaitingDispatcher
) -> None:
    """It ends only after `scale` has seen it as still there."""
    engine.start()
    eventually(lambda: dispatcher.inside == {1, 2}, 30.0, "two workers")
    with engine._lock:  # the one that ends cannot say so yet
        dispatcher.set_workers(1)
        engine._retiring.add(2)
        eventually(lambda: dispatcher.inside == {1}, 30.0, "one worker")
        dispatcher.set_workers(2)
    eventually(lambda: dispatcher.inside == {1, 2}, 30.0, "two workers again")
    assert names(engine) == ["grete-worker-1", "grete-worker-2"]


class RefusedThreads:
    """A system that refuses to start workers from a number on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refused_from: int) -> None:
        self.refused_from = refused_from
        start = Worker.start

        def limited(worker: Worker) -> None:
            if worker.number >= self.refused_from:
                raise RuntimeError("can't start new thread")
            start(worker)

        monkeypatch.setattr(Worker, "start", limited)


def test_a_worker_that_cannot_start_is_not_counted_and_starts_later(
    engine: Engine, dispatcher: WaitingDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.start()
    system = RefusedThreads(monkeypatch, refused_from=4)
    with pytest.raises(GreteError, match=r"3 of 6 workers run, because the system refuses another thread .*ulimit -u"):
        engine.scale(6)
    assert names(engine) == ["grete-worker-1", "grete-worker-2", "grete-worker-3"]
    system.refused_from = 100
    engine.scale(6)
    eventually(lambda: dispatcher.inside == {1, 2, 3, 4, 5, 6}, 30.0, "six workers")
    engine.scale(2)
    eventually(lambda: names(engine) == ["grete-worker-1", "grete-worker-2"], 30.0, "four have ended")


def test_a_worker_that_cannot_be_replaced_is_named_and_starts_later(
    engine: Engine,
    dispatcher: WaitingDispatcher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine.start()
    eventually(lambda: dispatcher.inside == {1, 2}, 30.0, "two workers")
    system = RefusedThreads(monkeypatch, refused_from=2)
    with engine._lock:  # the one that ends cannot say so yet
        dispatcher.set_workers(1)
        engine._retiring.add(2)
        eventually(lambda: dispatcher.inside == {1}, 30.0, "one worker")
        dispatcher.set_workers(2)
    eventually(lambda: names(engine) == ["grete-worker-1"], 30.0, "one worker is left")
    eventually(lambda: "worker 2 ended and cannot be started again" in caplog.text, 30.0, "the line")
    system.refused_from = 100
    engine.scale(2)
    eventually(lambda: dispatcher.inside == {1, 2}, 30.0, "two workers again")


def test_a_stop_replaces_no_worker(engine: Engine, dispatcher: WaitingDispatcher) -> None:
    engine.start()
    before = engine.threads
    dispatcher.stop()
    for thread in before:
        thread.join(30)
    assert engine.threads == before


def test_running_jobs_are_described_with_their_stacks(engine: Engine, dispatcher: WaitingDispatcher) -> None:
    engine.start()
    eventually(lambda: dispatcher.inside == {1, 2}, 30.0, "two workers")
    engine.scale(1)
    eventually(lambda: dispatcher.inside == {1}, 30.0, "one worker")
    dispatcher.offer(FakeJob(messages=some()))
    assert Slow.inside.wait(30)
    (text,) = engine.describe_running()
    first, _, stack = text.partition("\n")
    assert first == "Slow.consume on orders[3] offsets 5..6 for 12.3 s in grete-worker-1"
    assert "Slow.over.wait(30)" in stack
    statistics = engine.statistics()
    assert statistics["stalled"] == ["Slow.consume on orders[3] for 31.3 s"]
    assert (statistics["workers"], statistics["instances"], statistics["background"]) == (1, 1, 1)
    assert statistics["counts"] == {"jobs": 9}
    assert len(statistics["lanes"]) == 2


def test_a_late_instance_s_background_work_is_ended_in_the_end(engine: Engine, dispatcher: WaitingDispatcher) -> None:
    engine.start()
    dispatcher.offer(FakeJob(messages=some()))
    assert Slow.inside.wait(30)
    engine.begin_shutdown(time.monotonic())
    engine.stop_background(time.monotonic() + 30)
    assert engine.statistics()["background"] == 0


def test_an_asynchronous_route_has_a_loop(monkeypatch: pytest.MonkeyPatch, dispatcher: WaitingDispatcher) -> None:
    import os

    fd = os.eventfd(1)
    taken = threading.Event()

    def take_async_jobs() -> tuple[list[Any], list[int]]:
        os.eventfd_read(fd)
        taken.set()
        return [], []

    async def handler(messages: grete.Messages) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(_native, "Worker", lambda name, dispatcher, number: (name, dispatcher, number))
    monkeypatch.setattr(dispatcher, "start_async", lambda _name: fd, raising=False)
    monkeypatch.setattr(dispatcher, "take_async_jobs", take_async_jobs, raising=False)
    monkeypatch.setattr(dispatcher, "async_stopped", lambda: dispatcher.over, raising=False)
    either: Any = dispatcher
    config: Any = CONFIG
    engine = Engine(
        [make_route(0, ("orders",), handler, {})],
        either,
        {},
        SharedProducer({}, no_producer),
        config,
        FakeControl(),
        {0: "billing"},
    )
    engine.start()
    assert names(engine) == ["grete-loop", "grete-worker-1", "grete-worker-2"]
    assert taken.wait(30)
    dispatcher.stop()
    os.eventfd_write(fd, 1)
    for thread in engine.threads:
        thread.join(30)
        assert not thread.is_alive()
    engine.stop_background(0.0)
    os.close(fd)


def work(
    monkeypatch: pytest.MonkeyPatch, handler: Any, jobs: list[FakeJob], decision: FakeDecision | None = None
) -> tuple[FakeDispatcher, FakeControl, Worker]:
    from grete._processing.engine.failures import Failures

    monkeypatch.setattr(_native, "Worker", lambda name, dispatcher, number: (name, dispatcher, number))
    rig = Rig(handler)
    dispatcher: Any = FakeDispatcher(jobs)
    dispatcher.decision = decision or dispatcher.decision
    control = FakeControl()
    failures = Failures({0: rig.route}, dispatcher, control)
    worker = Worker(7, dispatcher, rig.hooks, failures, control, lambda _: None)
    worker.start()
    worker.join(30)
    assert not worker.is_alive()
    assert control.ended.get(timeout=30) is worker
    assert worker.job is None
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
    assert dispatcher.done == [jobs[0], jobs[2]]
    assert [failed[0] for failed in dispatcher.failed] == [jobs[1]]
    assert control.errors == []
    assert worker.name == "grete-worker-7"
    assert not worker.daemon
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "grete")
    assert "orders[3]@5..6: handler failed (attempt 1 of 5): ValueError: no" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_what_ends_a_process_stops_the_app(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def handler(messages: grete.Messages) -> None:
        raise error

    job = FakeJob(messages=some())
    dispatcher, control, _ = work(monkeypatch, handler, [job], FakeDecision("halt"))
    assert control.errors == [error]
    assert [failed[:2] for failed in dispatcher.failed] == [(job, "fatal")]


def test_a_broken_dispatcher_stops_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDispatcher, "next", lambda *_: 1 / 0)
    _, control, _ = work(monkeypatch, lambda messages: None, [])
    assert [type(error) for error in control.errors] == [ZeroDivisionError]
