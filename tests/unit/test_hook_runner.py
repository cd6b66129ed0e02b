"""Consumer instances and their hooks, with jobs made up here."""

import asyncio
import contextlib
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import grete
from grete._processing.engine.dead_letter_writer import DeadLetters
from grete._processing.engine.failures import classify
from grete._processing.engine.hook_runner import HookRunner, NotStarted, run_inline, run_sync
from grete._processing.engine.loop_thread import run_in_executor
from grete._processing.instances.registry import InstanceRegistry
from grete._processing.instances.teardown import InstanceTeardown
from grete._processing.instances.thread_leaks import ThreadLeakDetector
from grete._routing.routes import make_route
from grete.instrumentation import Monitor
from tests.unit.fake_jobs import FakeClient, FakeDispatcher, FakeJob, some


def no_producer() -> grete.client.Producer:
    raise AssertionError("no test produces here")


class Rig:
    """Hooks of one route."""

    def __init__(
        self, handler: Any, *, asynchronous: bool = False, monitor: Monitor | None = None, **settings: Any
    ) -> None:
        self.route = make_route(0, ("orders",), handler, settings)
        self.client: Any = FakeClient()
        self.dispatcher: Any = FakeDispatcher()
        clients: Any = {0: self.client}
        either: Any = self.dispatcher
        self.instances = InstanceRegistry(either, clients, no_producer, monitor)
        self.departure = InstanceTeardown(ThreadLeakDetector(False))
        arguments: list[Any] = [
            {0: self.route},
            self.instances,
            self.departure,
            DeadLetters(no_producer, {0: "billing"}),
            clients,
            {0: "billing"},
        ]
        arguments += [run_in_executor if asynchronous else run_inline, monitor]
        self.hooks = HookRunner(*arguments)
        self._events = () if monitor is None else monitor.job_events

    def run(self, *jobs: FakeJob) -> None:
        for job in jobs:
            job.heard = any(self._events)
            self.hooks.run_in_worker(job)  # type: ignore[arg-type]

    async def run_async(self, *jobs: FakeJob) -> None:
        for job in jobs:
            job.heard = any(self._events)
            await self.hooks.run(job)  # type: ignore[arg-type]


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

    def eof(self) -> None:
        self.note("eof")

    def tick(self) -> None:
        self.note("tick")


def names() -> list[str]:
    return [call[0] for call in Recorder.calls]


@pytest.fixture
def rig() -> Rig:
    Recorder.calls, Recorder.fail = [], set()
    return Rig(Recorder, tick="1s")


@pytest.fixture
def keyed() -> Rig:
    Recorder.calls, Recorder.fail = [], set()
    return Rig(Recorder, tick="1s", concurrency="key")


def test_an_instance_lives_as_long_as_its_lane(rig: Rig) -> None:
    rig.run(
        FakeJob(messages=some()),
        FakeJob(messages=some(), attempt=2),
        FakeJob(lane=2, partition=4, messages=some()),
        FakeJob("revoked", lost=True),
        FakeJob("shutdown", lane=2),
        FakeJob(lane=3, messages=some()),
    )
    assert names() == [
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
    assert len(rig.instances) == 1


def test_each_slot_has_an_instance_and_a_lanes_hooks_run_on_all(keyed: Rig) -> None:
    keyed.run(
        FakeJob(slot=4, messages=some()),
        FakeJob(slot=9, messages=some()),
        FakeJob(slot=4, messages=some()),
        FakeJob(lane=2, slot=4, messages=some()),
        FakeJob("tick"),
        FakeJob("eof"),
        FakeJob("revoked"),
    )
    four, nine = Recorder.calls[0][-1], Recorder.calls[2][-1]
    assert [(call[0], call[-1]) for call in Recorder.calls if call[-1] in (four, nine)] == [
        ("initialize", four),
        ("consume", four),
        ("initialize", nine),
        ("consume", nine),
        ("consume", four),
        *[(hook, instance) for hook in ("tick", "eof", "revoked") for instance in (four, nine)],
    ]
    assert len(keyed.instances) == 1


def test_a_lane_that_never_ran_has_no_last_hooks(rig: Rig) -> None:
    rig.run(FakeJob("revoked"), FakeJob("shutdown"))
    assert Recorder.calls == []


def test_a_tick_needs_no_record_unless_instances_are_many(rig: Rig) -> None:
    rig.run(FakeJob("tick"), FakeJob("eof"), FakeJob(messages=some()))
    assert names() == ["initialize", "tick", "eof", "consume"]


def test_a_tick_without_any_instance_of_many_does_nothing(keyed: Rig) -> None:
    keyed.run(FakeJob("tick"), FakeJob("eof"))
    assert Recorder.calls == []


def test_a_hook_that_fails_in_one_instance_runs_in_the_others(keyed: Rig) -> None:
    keyed.run(FakeJob(slot=1, messages=some()), FakeJob(slot=2, messages=some()))
    Recorder.calls, Recorder.fail = [], {"tick", "revoked"}
    with pytest.raises(ExceptionGroup, match="tick failed in 2 instances"):
        keyed.run(FakeJob("tick"))
    with pytest.raises(ExceptionGroup, match="revoked failed in 2 instances"):
        keyed.run(FakeJob("revoked"))
    assert names() == ["tick", "tick", "revoked", "revoked"]
    assert len(keyed.instances) == 0


def test_marks_go_to_the_job(rig: Rig) -> None:
    job = FakeJob(messages=some())
    rig.run(job)
    assert [(x.offset, through) for x, through in job.marks] == [(5, True)]  # type: ignore[attr-defined]


def test_a_failed_initialize_is_tried_on_a_new_instance(rig: Rig) -> None:
    Recorder.fail = {"initialize"}
    waits = []
    for _ in range(3):
        with pytest.raises(NotStarted) as caught:
            rig.run(FakeJob(messages=some()))
        assert str(caught.value.__cause__) == "initialize failed"
        waits.append(caught.value.wait)
    assert len({call[-1] for call in Recorder.calls}) >= 1
    assert len(rig.instances) == 0
    # 200 ms, doubled, less a fifth by chance at most.
    for wait, longest in zip(waits, (0.2, 0.4, 0.8), strict=True):
        assert 0.8 * longest <= wait <= longest
    Recorder.fail = set()
    rig.run(FakeJob(messages=some()))
    assert names() == ["initialize"] * 4 + ["consume"]


def test_a_constructor_that_raises_is_a_failed_initialize() -> None:
    class Broken(grete.Consumer):
        def __init__(self) -> None:
            raise ValueError("no database")

        def consume(self) -> None:
            """Never."""

    with pytest.raises(NotStarted) as caught:
        Rig(Broken).run(FakeJob(messages=some()))
    assert str(caught.value.__cause__) == "no database"


@pytest.mark.parametrize("error", [SystemExit(3), MemoryError(), KeyboardInterrupt()])
def test_what_ends_a_process_is_no_failed_initialize(error: BaseException) -> None:
    class Leaving(grete.Consumer):
        def initialize(self) -> None:
            raise error

        def consume(self) -> None:
            """Never."""

    with pytest.raises(type(error)):
        Rig(Leaving).run(FakeJob(messages=some()))


@pytest.mark.parametrize("failing", [set(), {"consume"}])
def test_an_instance_keeps_no_messages(rig: Rig, failing: set[str]) -> None:
    Recorder.fail = failing
    with contextlib.suppress(RuntimeError):
        rig.run(FakeJob(messages=some()))
    (consumer,) = (instance.consumer for instance in rig.instances.all())
    assert len(consumer.messages) == 0
    assert consumer._job is None


def test_manual_offsets_can_be_marked_after_the_job() -> None:
    class Later(grete.Consumer):
        def consume(self) -> None:
            self.kept = self.messages[:]

        def tick(self) -> None:
            self.mark(self.kept)

        def revoked(self) -> None:
            self.mark(self.kept[-1], through=True, sync=True)

    rig = Rig(Later, offsets="manual", tick="1s")
    consume, tick, revoked = FakeJob(messages=some()), FakeJob("tick"), FakeJob("revoked")
    rig.run(consume)
    (consumer,) = (instance.consumer for instance in rig.instances.all())
    consumer.mark(consumer.kept[0])  # type: ignore[attr-defined]
    assert [x.offset for x, _ in consume.marks] == [5]  # type: ignore[attr-defined]
    rig.run(tick, revoked)
    assert len(tick.marks) == 1
    assert [(x.offset, through) for x, through in revoked.marks] == [(6, True)]  # type: ignore[attr-defined]
    assert rig.client.committed == [revoked]


def test_at_most_once_stores_offsets_before_the_handler_sees_a_record() -> None:
    seen: list[list[object]] = []

    def handler(messages: grete.Messages) -> None:
        seen.append(list(once.client.committed))

    once = Rig(handler, offsets="at_most_once")
    job = FakeJob(messages=some())
    once.run(job)
    assert seen == [[job]]
    assert job.marks == [("all", False)]


def test_at_most_once_hands_out_nothing_until_the_commit_has_succeeded() -> None:
    calls: list[object] = []
    rig = Rig(calls.append, offsets="at_most_once")
    rig.client.errors = [grete.TimeoutError("no coordinator"), grete.KafkaError("loading", code=14, name="LOADING")]
    waits = []
    for _ in range(2):
        with pytest.raises(NotStarted) as caught:
            rig.run(FakeJob(messages=some()))
        assert caught.value.hook == "commit"
        waits.append(caught.value.wait)
    assert waits[1] > waits[0]
    assert calls == []
    rig.run(FakeJob(messages=some()))
    assert len(calls) == 1
    rig.client.errors = [grete.RevokedError("gone")]
    with pytest.raises(grete.RevokedError):
        rig.run(FakeJob(messages=some()))
    assert len(calls) == 1


def test_a_function_gets_the_messages() -> None:
    got: list[grete.Messages] = []
    messages = some()
    Rig(got.append).run(FakeJob(messages=messages))
    assert got == [messages]


def test_a_function_gets_message_by_message() -> None:
    got: list[int] = []

    def each(message: grete.Message) -> None:
        got.append(message.offset)

    job = FakeJob(messages=some())
    Rig(each).run(job)
    assert got == [5, 6]
    assert job.done_rows == 2


def test_coroutine_hooks_are_awaited() -> None:
    calls: list[tuple[str, list[int]]] = []

    class Async(grete.Consumer):
        async def initialize(self) -> None:
            await asyncio.sleep(0)
            calls.append(("initialize", []))

        async def consume(self) -> None:
            await asyncio.sleep(0)
            calls.append(("consume", list(self.messages.offsets)))

        def shutdown(self) -> None:
            asyncio.get_running_loop()
            calls.append(("shutdown", []))

    rig = Rig(Async, asynchronous=True)
    asyncio.run(rig.run_async(FakeJob(messages=some()), FakeJob("shutdown")))
    assert calls == [("initialize", []), ("consume", [5, 6]), ("shutdown", [])]


def test_an_asynchronous_hook_in_a_thread_is_refused() -> None:
    async def wait() -> None:
        await asyncio.Future()

    class Ready:
        def __await__(self) -> Any:
            yield

    async def suspend() -> None:
        await Ready()

    with pytest.raises(grete.GreteError, match="without an event loop"):
        run_sync(suspend())
    with pytest.raises(RuntimeError):
        run_sync(wait())


def test_a_stop_iteration_is_what_it_is() -> None:
    def handler(messages: grete.Messages) -> None:
        next(iter([]))

    job: Any = FakeJob(messages=some())
    rig = Rig(handler, retry=grete.Retry(never=StopIteration))
    with pytest.raises(StopIteration) as caught:
        rig.run(job)
    action = classify(caught.value, job, rig.route)
    assert (type(action.error), action.kind) == (StopIteration, "give_up")


def test_a_failed_revoked_leaves_no_instance(rig: Rig) -> None:
    rig.run(FakeJob(messages=some()))
    Recorder.fail = {"revoked"}
    with pytest.raises(RuntimeError):
        rig.run(FakeJob("revoked"))
    assert len(rig.instances) == 0


def test_consumers_go_with_their_lane(rig: Rig) -> None:
    rig.run(FakeJob(messages=some()))
    (consumer,) = (instance.consumer for instance in rig.instances.all())
    gone = weakref.ref(consumer)
    del consumer
    rig.run(FakeJob("shutdown"))
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda consumer: consumer.mark(some()[0]), "mark"),
        (lambda consumer: consumer.seek(5), "seek"),
        (lambda consumer: consumer.pause(), "pause"),
        (lambda consumer: consumer.resume(), "resume"),
        (lambda consumer: consumer.background(print), "background"),
        (lambda consumer: consumer.stopping, "stopping"),
        (lambda consumer: consumer.producer, "producer"),
    ],
)
def test_a_consumer_that_does_not_run_says_so(call: Callable[[grete.Consumer], object], word: str) -> None:
    with pytest.raises(grete.GreteError, match=word):
        call(Recorder())


def test_pause_resume_and_seek_reach_their_lane() -> None:
    calls: list[tuple[Any, ...]] = []

    class Pausing(grete.Consumer):
        def consume(self) -> None:
            self.pause(1.5)
            self.pause()
            self.resume()
            self.seek("earliest")

    rig = Rig(Pausing)
    rig.dispatcher.pause = lambda *what: calls.append(("pause", *what))
    rig.dispatcher.resume = lambda *what: calls.append(("resume", *what))
    rig.client.seek = lambda *what: calls.append(("seek", *what))
    job = FakeJob(messages=some())
    rig.run(job)
    assert calls == [("pause", job, 1.5), ("pause", job, None), ("resume", job), ("seek", "orders", 3, "earliest")]
    (consumer,) = (instance.consumer for instance in rig.instances.all())
    for wrong, says in ((-1, "finite and not negative"), ("1", 'write "1s"'), (b"1s", "a string like")):
        with pytest.raises(ValueError, match=f"pause: .*{says}"):
            consumer.pause(wrong)  # type: ignore[arg-type]
    consumer.pause("2m")
    assert calls[-1] == ("pause", job, 120.0)


def test_a_synchronous_mark_does_not_block_the_loop() -> None:
    class Async(grete.Consumer):
        async def consume(self) -> None:
            with pytest.raises(grete.GreteError, match="to_thread"):
                self.mark(self.messages[0], sync=True)
            await asyncio.to_thread(self.mark, self.messages[0], sync=True)

    rig = Rig(Async, asynchronous=True)
    job = FakeJob(messages=some())
    asyncio.run(rig.run_async(job))
    assert rig.client.committed == [job]


def test_nothing_is_logged_when_nothing_goes_wrong(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    rig.run(FakeJob(messages=some()), FakeJob("tick"), FakeJob("revoked"))
    assert caplog.records == []
