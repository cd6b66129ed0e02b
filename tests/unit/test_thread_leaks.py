"""Threads that hooks start by themselves, and how they are reported."""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import grete
from grete._processing.instances import thread_leaks
from grete._processing.instances.teardown import InstanceTeardown
from grete._processing.instances.thread_leaks import ThreadLeakDetector
from tests.kafka import eventually
from tests.unit.fake_jobs import FakeJob, some
from tests.unit.test_hook_runner import Rig


class Starter(grete.Consumer):
    """Starts threads in the hook that a test names; they end when `over` is set."""

    over = threading.Event()
    where = "initialize"
    started: list[threading.Thread] = []  # noqa: RUF012

    def start(self, where: str) -> None:
        if where == Starter.where:
            thread = threading.Thread(target=Starter.over.wait, args=(30,), name="mine")
            thread.start()  # here
            Starter.started.append(thread)

    def __init__(self) -> None:
        self.start("__init__")

    def initialize(self) -> None:
        self.start("initialize")

    def consume(self) -> None:
        self.start("consume")

    def revoked(self) -> None:
        self.start("revoked")


_LINES = Path(__file__).read_text().splitlines()
HERE = f"{__file__}:{next(at for at, line in enumerate(_LINES, 1) if line.endswith('# here'))}"


@pytest.fixture
def watch() -> Iterator[ThreadLeakDetector]:
    Starter.over, Starter.started = threading.Event(), []
    watch = ThreadLeakDetector(True)
    watch.start()
    yield watch
    watch.close(time.monotonic() + 30)
    Starter.over.set()
    for thread in Starter.started:
        thread.join(30)


def rig_of(watch: ThreadLeakDetector, handler: Any = Starter) -> Rig:
    rig = Rig(handler)
    rig.departure = InstanceTeardown(watch)
    rig.hooks._teardown = rig.departure
    return rig


@pytest.mark.parametrize("where", ["__init__", "initialize", "consume", "revoked"])
def test_it_is_named_with_the_line_that_has_started_it(
    watch: ThreadLeakDetector, where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_leaks, "GRACE", 0.0)
    Starter.where = where
    rig = rig_of(watch)
    rig.run(FakeJob(messages=some()), FakeJob("revoked"))
    eventually(lambda: caplog.records, 30.0, "the report")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.__dict__["event"] == "thread.leaked"
    assert (record.__dict__["place"], record.__dict__["hook"]) == (HERE, where)
    assert f'thread "mine", started at {HERE} by {where} of Starter on orders[3], outlives' in record.getMessage()
    assert "self.background" in record.getMessage()


def test_one_that_ends_with_its_consumer_is_not_reported(
    watch: ThreadLeakDetector, caplog: pytest.LogCaptureFixture
) -> None:
    Starter.where = "initialize"

    class Tidy(Starter):
        def revoked(self) -> None:
            Starter.over.set()

    rig = rig_of(watch, Tidy)
    rig.run(FakeJob(messages=some()), FakeJob("revoked"))
    watch.close(time.monotonic() + 30)
    assert len(Starter.started) == 1
    assert caplog.records == []


def test_the_same_place_is_reported_ever_more_seldom(
    watch: ThreadLeakDetector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_leaks, "GRACE", 0.0)
    Starter.where = "initialize"
    rig = rig_of(watch)
    for lane in range(9):
        rig.run(FakeJob(lane=lane, messages=some()), FakeJob("revoked", lane=lane))
    watch.close(time.monotonic())
    assert [record.__dict__["count"] for record in caplog.records] == [1, 2, 4, 8]
    assert "(8 by now)" in caplog.records[-1].getMessage()


def test_threads_of_a_pool_are_traced_to_who_uses_it(
    watch: ThreadLeakDetector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_leaks, "GRACE", 0.0)
    pools: list[ThreadPoolExecutor] = []

    class Pooled(grete.Consumer):
        def initialize(self) -> None:
            pool = ThreadPoolExecutor(1)
            pools.append(pool)
            pool.submit(print).result()

        def consume(self) -> None:
            """Nothing."""

    rig_of(watch, Pooled).run(FakeJob(messages=some()), FakeJob("revoked"))
    watch.close(time.monotonic())
    pools[0].shutdown()
    (record,) = caplog.records
    assert record.__dict__["place"].startswith(__file__)


def test_background_threads_and_those_outside_of_hooks_are_not_suspected(watch: ThreadLeakDetector) -> None:
    class Good(grete.Consumer):
        def initialize(self) -> None:
            self.background(self.stopping.wait, 30)

        def consume(self) -> None:
            """Nothing."""

    rig = rig_of(watch, Good)
    rig.run(FakeJob(messages=some()))
    other = threading.Thread(target=print)
    other.start()
    other.join()
    (host,) = (instance.context for instance in rig.instances.all())
    assert host.unmanaged_threads == []
    rig.run(FakeJob("revoked"))


def test_threading_is_left_as_it_was() -> None:
    before = threading.Thread.start
    one, other, off = ThreadLeakDetector(True), ThreadLeakDetector(True), ThreadLeakDetector(False)
    one.start()
    assert threading.Thread.start is not before
    other.start()
    off.start()
    one.close(0.0)
    one.close(0.0)
    assert threading.Thread.start is not before
    other.close(0.0)
    off.close(0.0)
    assert threading.Thread.start is before


def test_switched_off_it_patches_nothing() -> None:
    before = threading.Thread.start
    off = ThreadLeakDetector(False)
    off.start()
    assert threading.Thread.start is before


def test_who_patches_it_later_keeps_it_and_ours_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.Thread.start
    watch = ThreadLeakDetector(True)
    watch.start()
    ours = threading.Thread.start

    def theirs(thread: threading.Thread) -> None:
        ours(thread)

    monkeypatch.setattr(threading.Thread, "start", theirs)
    watch.close(0.0)
    assert threading.Thread.start is theirs
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    # A later App finds it there, and takes it back.
    monkeypatch.setattr(threading.Thread, "start", ours)
    again = ThreadLeakDetector(True)
    again.start()
    again.close(0.0)
    assert threading.Thread.start is before
