"""The events of jobs, in each style."""

import asyncio
from typing import Any

import pytest

import grete
from grete._processing.engine.hook_runner import NotStarted
from grete.instrumentation import Event, Monitor
from tests.unit.fake_jobs import FakeJob, some
from tests.unit.test_emit import Everything, as_described
from tests.unit.test_hook_runner import Recorder, Rig


class Async(grete.Consumer):
    async def initialize(self) -> None:
        await asyncio.sleep(0)

    async def consume(self) -> None:
        await asyncio.sleep(0)
        if self.attempt > 1:
            raise ValueError("no")


def function(messages: grete.Messages) -> None:
    if messages.first_offset != 5:
        raise AssertionError


async def coroutine(messages: grete.Messages) -> None:
    await asyncio.sleep(0)


def one_by_one(message: grete.Message) -> None:
    assert message.offset in (5, 6)


STYLES: list[tuple[Any, bool]] = [
    (Recorder, False),
    (function, False),
    (one_by_one, False),
    (Async, True),
    (coroutine, True),
]


def rig_of(handler: Any, asynchronous: bool, monitor: Monitor) -> Rig:
    Recorder.calls, Recorder.fail = [], set()
    settings = {"tick": "1s"} if handler is Recorder else {}
    return Rig(handler, asynchronous=asynchronous, monitor=monitor, **settings)


def run(rig: Rig, asynchronous: bool, *jobs: FakeJob) -> None:
    if asynchronous:
        asyncio.run(rig.run_async(*jobs))
    else:
        rig.run(*jobs)


@pytest.mark.parametrize(("handler", "asynchronous"), STYLES)
def test_each_job_is_emitted_before_and_after(handler: Any, asynchronous: bool) -> None:
    monitor = Monitor()
    rig, heard = rig_of(handler, asynchronous, monitor), Everything(monitor)
    messages = some()
    job = FakeJob(messages=messages)
    run(rig, asynchronous, job, FakeJob("shutdown"))
    assert all(as_described(occurred) for occurred in heard)
    heard[:] = (occurred for occurred in heard if occurred.name.startswith(("consumer.", "job.")))
    assert heard.names() == ["consumer.initialized", "job.started", "job.finished", "consumer.shutdown"]
    initialized, consume, consumed, shutdown = heard
    place = {"job": job.id, "handler": rig.route.name, "topic": "orders", "partition": 3, "slot": 0, "group": "billing"}
    fields = place | {"attempt": 1, "records": 2, "first_offset": 5, "last_offset": 6, "messages": messages}
    assert dict(consume.payload) == fields
    assert dict(consumed.payload) == fields | {"time": consumed.time, "error": None}
    assert dict(initialized.payload) == place | {"time": initialized.time, "error": None}
    assert shutdown["error"] is None
    assert all(occurred.time is not None and 0 <= occurred.time < 60 for occurred in (initialized, consumed, shutdown))


@pytest.mark.parametrize(("handler", "asynchronous"), [(Recorder, False), (Async, True)])
def test_a_job_that_fails_is_emitted_with_its_error(handler: Any, asynchronous: bool) -> None:
    monitor, heard = Monitor(), list[Event]()
    monitor.subscribe("job.finished", heard.append)
    rig = rig_of(handler, asynchronous, monitor)
    Recorder.fail = {"consume"}
    with pytest.raises((RuntimeError, ValueError)) as raised:
        run(rig, asynchronous, FakeJob(messages=some(), attempt=2))
    (occurred,) = heard
    assert occurred["error"] is raised.value
    assert occurred["attempt"] == 2


def test_partition_hooks_are_emitted_once_for_all_instances() -> None:
    Recorder.calls, Recorder.fail = [], {"eof"}
    monitor = Monitor()
    rig = Rig(Recorder, tick="1s", concurrency="key", monitor=monitor)
    rig.run(*(FakeJob(messages=some(), slot=slot) for slot in (1, 2)))
    heard = Everything(monitor)
    rig.run(FakeJob("tick"))
    with pytest.raises(ExceptionGroup):
        rig.run(FakeJob("eof"))
    rig.run(FakeJob("revoked", lost=True))
    assert heard.names() == ["consumer.tick", "consumer.eof", "consumer.revoked"]
    assert all(as_described(occurred) for occurred in heard)
    tick, eof, revoked = heard
    assert (tick["error"], type(eof["error"]), revoked["lost"]) == (None, ExceptionGroup, True)


def test_an_instance_that_fails_to_begin_is_emitted_with_its_error() -> None:
    monitor = Monitor()
    rig, heard = rig_of(Recorder, False, monitor), Everything(monitor)
    Recorder.fail = {"initialize"}
    with pytest.raises(NotStarted):
        rig.run(FakeJob(messages=some()))
    assert [(occurred.name, type(occurred["error"])) for occurred in heard] == [("consumer.initialized", RuntimeError)]


@pytest.mark.parametrize("name", ["job.started", "job.finished"])
def test_who_comes_or_goes_while_a_handler_runs_hears_the_rest_or_nothing(name: str) -> None:
    monitor, heard = Monitor(), list[str]()

    def listener(occurred: Event) -> None:
        heard.append(occurred.name)

    class Changes(grete.Consumer):
        def consume(self) -> None:
            if monitor.event(name):
                monitor.unsubscribe(name, listener)
            else:
                monitor.subscribe(name, listener)

    rig = Rig(Changes, monitor=monitor)
    rig.run(*(FakeJob(messages=some()) for _ in range(3)))
    assert heard == (["job.started"] if name == "job.started" else [])


def test_the_batch_is_let_go_of() -> None:
    monitor, heard = Monitor(), list[int]()
    monitor.subscribe("job.finished", lambda occurred: heard.append(len(occurred["messages"])))
    rig = rig_of(Recorder, False, monitor)
    rig.run(FakeJob(messages=some()))
    assert heard == [2]
    (instance,) = rig.instances.all()
    assert len(instance.consumer.messages) == 0
