"""What is logged is emitted, too, and conversely."""

import logging
import os
from typing import Any

import pytest

import grete
from grete._processing.engine.failures import Failures
from grete._processing.events.log_events import LogEventHandler
from grete._processing.instances.background import Background
from grete.instrumentation import Event, Monitor
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.events import EVENTS
from tests.kafka import eventually
from tests.unit.fake_jobs import FakeControl, FakeDecision, FakeDispatcher, FakeJob, some
from tests.unit.test_failures import route
from tests.unit.test_log_events import FakeNotice
from tests.unit.test_stop import make

logger = logging.getLogger("grete")


class Everything(list[Event]):
    """All that a monitor emits."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        for name in monitor:
            monitor.subscribe(name, self.append)

    def names(self) -> list[str]:
        return [occurred.name for occurred in self]


@pytest.fixture
def monitor() -> Monitor:
    return Monitor()


def as_described(occurred: Event) -> bool:
    described = EVENTS[occurred.name]
    return set(described.fields) - described.optional <= set(occurred.payload) <= set(described.fields)


def test_one_call_reaches_the_log_and_the_listeners(monitor: Monitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    heard, error = Everything(monitor), ValueError("no")
    fields = {"from": 1, "name": "x"}
    log_and_emit(monitor, logger, logging.INFO, "offset.reset", "%s of %d", "one", 2, fields=fields, error=error)
    log_and_emit(monitor, logger, logging.INFO, "offset.reset", "plain", error=error, traceback=False)
    log_and_emit(None, logger, logging.INFO, "offset.reset", "for the log")
    with_traceback, without, alone = caplog.records
    assert with_traceback.getMessage() == "one of 2"
    assert (with_traceback.__dict__["event"], with_traceback.__dict__["from"]) == ("offset.reset", 1)
    assert (with_traceback.name, with_traceback.__dict__["name_"]) == ("grete", "x")
    assert with_traceback.exc_info is not None
    assert with_traceback.funcName == "test_one_call_reaches_the_log_and_the_listeners"
    assert without.exc_info is None
    assert alone.getMessage() == "for the log"
    assert [dict(occurred.payload) for occurred in heard] == [{**fields, "error": error}, {"error": error}]


def test_what_the_log_leaves_out_is_emitted_all_the_same(monitor: Monitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    teller: Any = LogEventHandler(monitor)
    notice = FakeNotice("broker.connected", level=logging.DEBUG, fields={"broker": "1"})
    teller([notice])
    heard = Everything(monitor)
    teller([notice])
    assert caplog.records == []
    assert [(occurred.name, dict(occurred.payload)) for occurred in heard] == [("broker.connected", {"broker": "1"})]


@pytest.mark.parametrize(
    ("error", "name"), [(ValueError("no"), "consumer.error"), (grete.RetryLater(delay=3), "consumer.retry")]
)
def test_a_failure_is_emitted_with_its_error(monitor: Monitor, error: Exception, name: str) -> None:
    heard = Everything(monitor)
    dispatcher: Any = FakeDispatcher()
    dispatcher.decision = FakeDecision("retry", attempt=2)
    control: Any = FakeControl()
    job: Any = FakeJob(messages=some())
    Failures({0: route()}, dispatcher, control, monitor).fail(job, error)
    (occurred,) = heard
    assert occurred.name == name
    assert occurred["error"] is error
    assert (occurred["topic"], occurred["first_offset"], occurred["decision"]) == ("orders", 5, "retry")
    assert as_described(occurred)


def test_background_work_that_fails_is_emitted(monitor: Monitor) -> None:
    heard = Everything(monitor)
    dispatcher: Any = None

    def fails() -> None:
        raise ValueError("no")

    Background("Orders on orders[3]", dispatcher, monitor).start(fails, (), None).join()  # type: ignore[union-attr]
    (occurred,) = heard
    assert (occurred.name, occurred["background"]) == ("background.failed", "grete-background-fails")
    assert as_described(occurred)


def test_an_app_emits_events_of_its_life_and_of_brokers() -> None:
    app = make()
    heard = Everything(app.monitor)
    with app.running():
        eventually(lambda: "broker.connect_failed" in heard.names(), 30.0, "there is no broker to connect to")
        app.scale(2)
        app.quiet()
    names = heard.names()
    assert names.index("app.running") < names.index("app.scaled") < names.index("app.quiet")
    assert names[-1] == "app.stopped"
    assert all(as_described(occurred) for occurred in heard), heard


def test_an_app_has_a_monitor_of_its_own() -> None:
    one, other = make(), make()
    heard = Everything(one.monitor)
    other.monitor.instrument("app.running")
    assert not heard
    assert one.monitor is one.monitor


def test_a_forked_child_has_the_listeners_of_its_parent(monitor: Monitor) -> None:
    read, write = os.pipe()
    heard = Everything(monitor)
    monitor.subscribe("app.running", lambda _: os.write(write, f"{os.getppid()}".encode()))
    child = os.fork()
    if not child:
        try:
            monitor.instrument("app.running")
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 100) == f"{os.getpid()}".encode()
    assert not heard
    os.close(read)
    os.close(write)
