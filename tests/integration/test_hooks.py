"""The life of consumers on a real broker: hooks, background work, offsets in their own hands, a loop beside threads."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import make, running, until_done
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.__dict__.get("event") == name]


class Life(grete.Consumer):
    """Notes its hooks."""

    notes: list[tuple[str, int]]

    def note(self, hook: str) -> None:
        type(self).notes.append((hook, self.partition))

    def initialize(self) -> None:
        self.note("initialize")

    def consume(self) -> None:
        self.note("consume")

    def revoked(self) -> None:
        self.note("lost" if self.lost else "revoked")

    def shutdown(self) -> None:
        self.note("shutdown")

    def eof(self) -> None:
        self.note("eof")

    def tick(self) -> None:
        self.note("tick")


class AsyncLife(Life):
    """The same on the loop."""

    async def initialize(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.note("initialize")

    async def consume(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.note("consume")

    async def tick(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.note("tick")


@pytest.mark.parametrize("kind", [Life, AsyncLife])
@pytest.mark.parametrize("concurrency", ["partition", "key"])
def test_the_hooks_of_a_partition_that_comes_and_goes(
    kafka: KafkaCluster, topic: str, group: str, kind: type[Life], concurrency: Any
) -> None:
    fill_two(kafka, topic, 100)
    notes: list[tuple[str, int]] = []

    class Mine(kind):  # type: ignore[misc, valid-type]
        pass

    Mine.notes = notes
    app = make(kafka, group)
    app.consumer(topic, concurrency=concurrency, tick="50ms")(Mine)
    with running(app):
        until_done(kafka, app, topic)
        eventually(lambda: {("eof", 0), ("eof", 1), ("tick", 0), ("tick", 1)} <= set(notes), 30.0, lambda: str(notes))
        other = make(kafka, group)
        other.consumer(topic)(lambda messages: None)
        with running(other):
            eventually(lambda: any(hook == "revoked" for hook, _ in notes), 60.0, "one partition goes")
        (gone,) = {partition for hook, partition in notes if hook == "revoked"}
        assert app.error is None
        with producer(kafka.bootstrap_servers) as target:
            target.produce_many(topic, [b"more"] * 5, key=b"k", partition=gone).wait(30)
        until_done(kafka, app, topic)
    life = [hook for hook, partition in notes if partition == gone and hook not in ("tick", "eof", "consume")]
    instances = life.count("initialize")
    assert life.count("revoked") + life.count("shutdown") == instances
    assert life[0] == "initialize"
    assert life[-1] == "shutdown"
    assert instances >= 2
    if concurrency == "partition":
        assert instances == 2


def fill_two(kafka: KafkaCluster, topic: str, count: int) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, count, partitions=2, key=lambda index: b"%d" % (index % 7))


def test_sync_and_async_routes_in_one_app(kafka: KafkaCluster, topic: str, group: str) -> None:
    other = f"{topic}.other"
    fill_two(kafka, topic, 1000)
    fill_two(kafka, other, 1000)
    threads: dict[str, set[str]] = {"sync": set(), "async": set()}
    seen: Counter[tuple[str, int, int]] = Counter()
    context: contextvars.ContextVar[str] = contextvars.ContextVar("context", default="fresh")

    app = make(kafka, group)

    @app.consumer(topic, max_messages=50)
    def in_threads(messages: grete.Messages) -> None:
        threads["sync"].add(threading.current_thread().name)
        seen.update((messages.topic, messages.partition, offset) for offset in messages.offsets)

    @app.consumer(other, max_messages=50)
    async def on_the_loop(messages: grete.Messages) -> None:
        assert context.get() == "fresh"
        context.set("used")
        await asyncio.sleep(0.001)
        threads["async"].add(threading.current_thread().name)
        seen.update((messages.topic, messages.partition, offset) for offset in messages.offsets)

    with running(app):
        until_done(kafka, app, topic, other)
    assert threads["async"] == {"grete-loop"}
    assert all(name.startswith("grete-worker-") for name in threads["sync"])
    assert len(seen) == 2000
    assert set(seen.values()) == {1}


def test_many_lanes_wait_on_the_loop_at_once(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=8)
    fill(kafka.bootstrap_servers, topic, 80, partitions=8)
    inside: set[int] = set()
    all_there = asyncio.Event()
    app = make(kafka, group, workers=1)

    @app.consumer(topic)
    async def together(messages: grete.Messages) -> None:
        inside.add(messages.partition)
        if len(inside) == 8:
            all_there.set()
        await all_there.wait()

    with running(app):
        until_done(kafka, app, topic)
    assert inside == set(range(8))


def test_a_stop_waits_for_a_task_and_cancels_it_in_the_end(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    inside, cancelled = threading.Event(), threading.Event()
    app = make(kafka, group)

    @app.consumer(topic)
    async def endless(messages: grete.Messages) -> None:
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    app.start()
    assert inside.wait(30)
    with pytest.raises(grete.TimeoutError, match="endless"):
        app.stop(2.0)
    assert cancelled.is_set()
    assert kafka.admin.committed(group).get((topic, 0), 0) == 0
    assert "endless" in "".join(record.getMessage() for record in events(caplog, "app.job_unfinished"))
    assert events(caplog, "consumer.error") == []


def test_background_work_and_leaks(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill_two(kafka, topic, 10)
    over = threading.Event()
    beside: list[str] = []

    class Busy(grete.Consumer):
        def initialize(self) -> None:
            self.background(self.flush)
            threading.Thread(target=over.wait, args=(60,), name="raw").start()  # leaks here

        def consume(self) -> None:
            """Nothing."""

        def flush(self) -> None:
            beside.append("started")
            self.stopping.wait(60)
            beside.append("ended")

        def shutdown(self) -> None:
            beside.append("shutdown")

    app = make(kafka, group)
    app.consumer(topic)(Busy)
    before = threading.Thread.start
    try:
        with running(app):
            until_done(kafka, app, topic)
            assert app.statistics()["background"] == 2
            assert threading.Thread.start is not before
        assert threading.Thread.start is before
        assert Counter(beside) == {"started": 2, "ended": 2, "shutdown": 2}
        assert beside.index("ended") < beside.index("shutdown")
        lines = Path(__file__).read_text().splitlines()
        line = next(at for at, text in enumerate(lines, 1) if text.endswith("# leaks here"))
        leaked = events(caplog, "thread.leaked")
        assert [record.__dict__["count"] for record in leaked] == [1, 2]
        assert {record.__dict__["place"] for record in leaked} == {f"{__file__}:{line}"}
    finally:
        over.set()


def test_marks_are_stored_when_they_return(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 50)
    committed: list[int] = []

    class Manual(grete.Consumer):
        def consume(self) -> None:
            for message in (self.messages[0], self.messages[-1]):
                self.mark(message, through=True, sync=True)
                committed.append(kafka.admin.committed(group)[topic, 0] - message.offset)

    app = make(kafka, group)
    app.consumer(topic, offsets="manual")(Manual)
    with running(app):
        until_done(kafka, app, topic)
    assert set(committed) == {1}


def test_marks_from_a_background_thread_count(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 50)

    class Later(grete.Consumer):
        def initialize(self) -> None:
            self.lock = threading.Condition()
            self.waiting: list[grete.Message] = []
            self.background(self.flush)

        def consume(self) -> None:
            with self.lock:
                self.waiting += self.messages
                self.lock.notify_all()

        def flush(self) -> None:
            while not self.stopping.is_set():
                with self.lock:
                    self.lock.wait_for(lambda: self.waiting, 0.05)
                    rows, self.waiting = self.waiting, []
                for message in rows:
                    self.mark(message)

    app = make(kafka, group)
    app.consumer(topic, offsets="manual", max_messages=7)(Later)
    with running(app):
        until_done(kafka, app, topic)


def test_a_pause_holds_one_partition_and_a_seek_goes_back(kafka: KafkaCluster, topic: str, group: str) -> None:
    fill_two(kafka, topic, 40)
    seen: list[tuple[int, int, float]] = []
    sought: list[int] = []

    class Moving(grete.Consumer):
        def consume(self) -> None:
            now = time.monotonic()
            seen.extend((self.partition, offset, now) for offset in self.messages.offsets)
            if self.partition == 0 and self.messages.last_offset >= 5 and not sought:
                sought.append(self.messages.last_offset)
                self.seek(2)
            elif self.partition == 0:
                self.pause(0.2)

    app = make(kafka, group)
    app.consumer(topic, max_messages=4)(Moving)
    with running(app):
        until_done(kafka, app, topic)
    zero = [(offset, at) for partition, offset, at in seen if partition == 0]
    back = next(index for index in range(1, len(zero)) if zero[index][0] < zero[index - 1][0])
    assert zero[back][0] == 2
    assert zero[back - 1][0] == sought[0]
    times = sorted({at for _, at in zero[back:]})
    assert len(times) > 2
    assert all(after - before >= 0.19 for before, after in pairwise(times))


def test_workers_come_and_go_while_they_work(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=8)
    fill(kafka.bootstrap_servers, topic, 4000, partitions=8)
    seen: Counter[tuple[int, int]] = Counter()
    app = make(kafka, group, workers=1)

    @app.consumer(topic, max_messages=10)
    def work(messages: grete.Messages) -> None:
        seen.update((messages.partition, offset) for offset in messages.offsets)

    def workers() -> int:
        return sum(thread.name.startswith("grete-worker-") for thread in threading.enumerate())

    with running(app):
        for count in (8, 1, 4, 2, 16):
            app.scale(count)
            eventually(lambda count=count: workers() == count, 30.0, f"{count} workers")  # type: ignore[misc]
        until_done(kafka, app, topic)
    assert len(seen) == 4000
    assert set(seen.values()) == {1}
    assert workers() == 0


@pytest.mark.parametrize("kind", ["thread", "loop", "blocked loop"])
def test_a_handler_that_takes_long_is_logged_with_its_stack(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    over = threading.Event()
    app = make(kafka, group)

    def blocks(messages: grete.Messages) -> None:
        over.wait(60)  # hangs

    async def awaits(messages: grete.Messages) -> None:
        while not over.is_set():
            await asyncio.wait_for(asyncio.sleep(0.01), 5)  # hangs

    async def blocks_the_loop(messages: grete.Messages) -> None:
        blocks(messages)

    handler = {"thread": blocks, "loop": awaits, "blocked loop": blocks_the_loop}[kind]
    app.consumer(topic, stall_after="200ms")(handler)
    try:
        with running(app):
            eventually(lambda: events(caplog, "consumer.stalled"), 30.0, "it is logged")
            assert app.statistics()["stalled"][0].startswith(f"{handler.__name__} on {topic}[0]")
            over.set()
            until_done(kafka, app, topic)
    finally:
        over.set()
    (record,) = events(caplog, "consumer.stalled")
    assert topic in record.getMessage()
    assert "# hangs" in record.getMessage()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_handler_that_outlives_its_revocation_is_left_behind(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture, asynchronous: bool
) -> None:
    """Its task is cancelled, its marks are refused, and its instance goes, with `revoked` and `lost`."""
    fill_two(kafka, topic, 10)
    over, left = threading.Event(), []
    inside: set[int] = set()
    refused: list[int] = []

    class Late(grete.Consumer):
        def revoked(self) -> None:
            left.append((self.partition, self.lost))

    class LateThread(Late):
        def consume(self) -> None:
            inside.add(self.partition)
            over.wait(60)
            try:
                self.mark(self.messages)
            except grete.RevokedError:
                refused.append(self.partition)

    class LateTask(Late):
        async def consume(self) -> None:
            inside.add(self.partition)
            try:
                while not over.is_set():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                refused.append(self.partition)
                raise

    limits = {"max.poll.interval.ms": 4000, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
    app = grete.App(group, kafka={"bootstrap.servers": kafka.bootstrap_servers, **limits}, workers=4)
    app.consumer(topic)(LateTask if asynchronous else LateThread)
    other = grete.App(group, kafka={"bootstrap.servers": kafka.bootstrap_servers, **limits}, workers=1)
    got: list[int] = []
    other.consumer(topic)(lambda messages: got.extend([messages.partition] * len(messages)))
    try:
        with running(app):
            eventually(lambda: inside == {0, 1}, 60.0, "both are busy")
            with running(other):
                eventually(lambda: got, 60.0, "the other one has its records")
                eventually(lambda: events(caplog, "consumer.abandoned"), 30.0, "it is logged")
                if asynchronous:
                    eventually(lambda: left, 30.0, "the task was cancelled")
                over.set()
                eventually(lambda: left, 30.0, "its last hook has run")
                eventually(lambda: app.statistics()["instances"] == 1, 30.0, "its instance is gone")
    finally:
        over.set()
    (gone,) = set(got)
    assert left == [(gone, True)]
    assert refused == [gone]
    assert len(events(caplog, "consumer.abandoned")) == 1


@pytest.mark.parametrize("kind", ["worker", "background", "task", "helper"])
def test_an_app_can_be_stopped_from_whatever_it_runs(
    kafka: KafkaCluster, topic: str, group: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The stop waits for these: they do not wait for it."""
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    app = make(kafka, group)
    stopped = threading.Event()

    def stop() -> None:
        app.stop()
        stopped.set()

    class Background(grete.Consumer):
        def consume(self) -> None:
            self.background(stop)

    async def task(messages: grete.Messages) -> None:
        stop()

    async def helper(messages: grete.Messages) -> None:
        await asyncio.to_thread(stop)

    handlers: dict[str, Any] = {"worker": lambda _: stop(), "background": Background, "task": task, "helper": helper}
    app.consumer(topic)(handlers[kind])
    with running(app):
        assert stopped.wait(60)
    assert kafka.admin.committed(group) == {(topic, 0): 10}
    assert events(caplog, "thread.leaked") == []
