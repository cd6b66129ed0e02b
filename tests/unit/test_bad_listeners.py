"""Listeners that raise, go away, or mean what there is not: jobs and the App go on."""

import asyncio
import logging
import threading
from typing import Any

import pytest

import grete
from grete import UnknownEventError
from grete.instrumentation import Event, Monitor
from tests.kafka import eventually
from tests.unit.fake_jobs import FakeJob, some
from tests.unit.test_emit import Everything
from tests.unit.test_hook_runner import Recorder
from tests.unit.test_job_events import Async, rig_of
from tests.unit.test_stop import make

pytestmark = pytest.mark.usefixtures("empty_directory")


class Raises:
    """To everything of a job."""

    def on_consumer_initialized(self, occurred: Event) -> None:
        raise ValueError(occurred.name)

    def on_job_started(self, occurred: Event) -> None:
        raise ValueError(occurred.name)

    def on_job_finished(self, occurred: Event) -> None:
        raise ValueError(occurred.name)

    def on_consumer_shutdown(self, occurred: Event) -> None:
        raise ValueError(occurred.name)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_job_does_not_care_for_listeners_that_raise(asynchronous: bool, caplog: pytest.LogCaptureFixture) -> None:
    monitor, errors = Monitor(), list[Event]()
    monitor.subscribe(Raises())
    heard = Everything(monitor)
    monitor.subscribe("listener.failed", errors.append)
    rig = rig_of(Async if asynchronous else Recorder, asynchronous, monitor)
    jobs = FakeJob(messages=some()), FakeJob("shutdown")
    if asynchronous:
        asyncio.run(rig.run_async(*jobs))
    else:
        rig.run(*jobs)
        assert [call[0] for call in Recorder.calls] == ["initialize", "consume", "shutdown"]
    of = ["consumer.initialized", "job.started", "job.finished", "consumer.shutdown"]
    assert [occurred["of"] for occurred in errors] == of
    assert [str(occurred["error"]) for occurred in errors] == of
    assert all("Raises.on_" in occurred["listener"] for occurred in errors)
    assert [name for name in heard.names() if name != "listener.failed"] == of, "the others hear all the same"
    emitted = [occurred for occurred in heard if occurred.name == "job.finished"]
    assert emitted[0]["error"] is None, "it is not the job that has failed"
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 4


def test_a_job_that_fails_fails_with_its_own_error() -> None:
    monitor = Monitor()
    monitor.subscribe(Raises())
    rig = rig_of(Recorder, False, monitor)
    Recorder.fail = {"consume"}
    with pytest.raises(RuntimeError, match="consume failed"):
        rig.run(FakeJob(messages=some()))


def test_an_app_does_not_care_for_listeners_that_raise() -> None:
    app = make(statistics_interval="100ms")

    def bad(_: Event) -> None:
        raise ValueError("no")

    errors = list[str]()
    app.monitor.subscribe("listener.failed", lambda occurred: errors.append(occurred["of"]))
    for name in app.monitor:
        if name != "listener.failed":
            app.monitor.subscribe(name, bad)
    with app.running():
        eventually(lambda: errors.count("statistics.emitted") > 1, 30.0, "it goes on after the first time")
        assert app.error is None
    assert {"app.running", "broker.connect_failed", "app.stopped"} <= set(errors)


class Once:
    """Listens to one job only."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.heard: list[str] = []

    def on_job_started(self, occurred: Event) -> None:
        self.heard.append(occurred.name)
        self.monitor.unsubscribe(self)

    def on_job_finished(self, occurred: Event) -> None:
        self.heard.append(occurred.name)


def test_an_object_that_unsubscribes_itself_hears_no_more() -> None:
    monitor, after = Monitor(), list[str]()
    once = Once(monitor)
    monitor.subscribe(once)
    monitor.subscribe("job.started", lambda occurred: after.append(occurred.name))
    rig = rig_of(Recorder, False, monitor)
    rig.run(*(FakeJob(messages=some()) for _ in range(3)))
    assert once.heard == ["job.started"], "the end of that job is another event"
    assert len(after) == 3, "who comes behind it in the list is not left out"


def test_another_thread_that_unsubscribes_during_a_dispatch_does_not_wait() -> None:
    monitor, heard = Monitor(), list[str]()
    inside, gone = threading.Event(), threading.Event()

    def slow(_: Event) -> None:
        inside.set()
        assert gone.wait(30)
        heard.append("slow")

    def later(_: Event) -> None:
        heard.append("later")

    monitor.subscribe("app.quiet", slow)
    monitor.subscribe("app.quiet", later)
    dispatch = threading.Thread(target=monitor.instrument, args=("app.quiet",))
    dispatch.start()
    assert inside.wait(30)
    monitor.unsubscribe("app.quiet", slow)
    monitor.unsubscribe("app.quiet", later)
    assert not monitor.event("app.quiet")
    gone.set()
    dispatch.join()
    assert heard == ["slow", "later"]
    monitor.instrument("app.quiet")
    assert len(heard) == 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("on_job_finishd", "on_job_finished"),
        ("on_consumer_deadletter", "on_consumer_dead_letter"),
        ("on_statistics_emited", "on_statistics_emitted"),
        ("on_swarm_node_dead", "on_swarm_node_"),
        ("on_group_asigned", "on_group_assigned"),
    ],
)
def test_a_misspelt_method_is_refused_with_a_suggestion(name: str, meant: str) -> None:
    def method(_self: object, _occurred: Event) -> None: ...

    kind = type("Alarm", (), {"on_app_running": method, name: method})
    monitor = Monitor()
    with pytest.raises(UnknownEventError, match=rf'Alarm\.{name}: there is no such event; did you mean "{meant}'):
        monitor.subscribe(kind())
    assert not monitor.event("app.running"), "nothing of it is subscribed"


def test_what_is_only_logged_says_so() -> None:
    with pytest.raises(UnknownEventError, match=r"'swarm\.request\.failed' is logged only"):
        Monitor().subscribe("swarm.request.failed", print)


def test_a_method_of_a_base_class_counts() -> None:
    class Base:
        heard: list[str]

        def on_app_running(self, occurred: Event) -> None:
            self.heard.append(occurred.name)

    class Derived(Base):
        def __init__(self) -> None:
            self.heard = []

        def on_app_stopped(self, occurred: Event) -> None:
            self.heard.append(occurred.name)

    monitor, derived = Monitor(), Derived()
    monitor.subscribe(derived)
    monitor.instrument("app.running")
    monitor.instrument("app.stopped")
    assert derived.heard == ["app.running", "app.stopped"]


def test_the_listeners_that_come_with_grete_know_their_events(monkeypatch: pytest.MonkeyPatch) -> None:
    from grete.instrumentation.dogstatsd import DogStatsD
    from grete.instrumentation.job_logger import JobLogger
    from grete.instrumentation.process_title import ProcessTitle

    listeners: list[Any] = [JobLogger(), DogStatsD("127.0.0.1:1"), ProcessTitle()]
    for listener in listeners:
        app = grete.App("one")
        app.monitor.subscribe(listener)
        app.monitor.unsubscribe(listener)
        assert [name for name in app.monitor if app.monitor.event(name)] == []
