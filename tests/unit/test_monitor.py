"""Events, and who listens to them."""

import gc
import logging
import pickle
import sys
import threading
import time
import tracemalloc
import weakref
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import pytest

import grete
from grete import UnknownEventError
from grete.instrumentation import Event, EventChannel, Monitor, clock


@pytest.fixture
def monitor() -> Monitor:
    return Monitor()


def test_a_channel_is_true_while_it_has_listeners(monitor: Monitor) -> None:
    event, heard = monitor.event("app.running"), list[Event]()
    assert event is monitor.event("app.running")
    assert (bool(event), event.__bool__(), len(event)) == (False, False, 0)
    event.emit(topics=["a"])
    monitor.subscribe("app.running", heard.append)
    assert (bool(event), event.__bool__(), len(event)) == (True, True, 1)
    assert not monitor.event("app.stopped")
    before = time.time()
    event.emit(topics=["a"], time=0.5)
    monitor.unsubscribe("app.running", heard.append)
    assert (bool(event), len(event)) == (False, 0)
    event.emit(topics=["b"])
    (occurred,) = heard
    assert (occurred.name, occurred.time) == ("app.running", 0.5)
    assert occurred.payload == {"topics": ["a"], "time": 0.5}
    assert before <= occurred.at <= time.time()
    assert occurred["topics"] == ["a"]
    assert "topics" in occurred
    assert "groups" not in occurred
    with pytest.raises(KeyError, match="groups"):
        occurred["groups"]
    assert repr(occurred) == "<Event app.running: {'topics': ['a'], 'time': 0.5}>"
    assert repr(event) == "<EventChannel app.running: 0 listeners>"


def test_deferred_fields_are_made_once_when_a_listener_reads_one(monitor: Monitor) -> None:
    event, calls = monitor.event("app.running"), list[object]()

    def make(topics: list[str], seconds: float) -> dict[str, Any]:
        calls.append(topics)
        return {"topics": topics, "time": seconds}

    event.emit_deferred(make, ["a"], 0.5)
    assert calls == [], "nothing is made without listeners"
    heard = list[Event]()
    monitor.subscribe("app.running", heard.append)
    monitor.subscribe("app.running", heard.append)
    event.emit_deferred(make, ["a"], 0.5)
    assert calls == []
    first, second = heard
    assert first is second
    assert (first["topics"], second.time, "topics" in first) == (["a"], 0.5, True)
    assert dict(first.payload) == {"topics": ["a"], "time": 0.5}
    assert repr(first) == "<Event app.running: {'topics': ['a'], 'time': 0.5}>"
    assert calls == [["a"]]


def test_deferred_fields_let_go_of_their_arguments_and_belong_to_the_collector(monitor: Monitor) -> None:
    class Records:
        pass

    heard = list[Event]()
    monitor.subscribe("app.running", heard.append)
    for read in (True, False):
        records = Records()
        seen = weakref.ref(records)
        monitor.event("app.running").emit_deferred(lambda records: {"records": 1}, records)
        del records
        if read:
            assert heard.pop()["records"] == 1
        else:
            heard.pop()
        gc.collect()
        assert seen() is None
    kept: list[Any] = []
    monitor.event("app.running").emit_deferred(lambda kept: {}, kept)
    kept.append(heard.pop())  # a cycle through the event
    marker = Records()
    seen = weakref.ref(marker)
    kept.append(marker)
    del kept, marker
    gc.collect()
    assert seen() is None


def test_deferred_fields_that_cannot_be_made_are_the_error_of_the_listener(monitor: Monitor) -> None:
    failed, heard = list[Event](), list[object]()
    monitor.subscribe("listener.failed", failed.append)
    monitor.subscribe("app.running", lambda occurred: heard.append(occurred["topics"]))

    def make() -> dict[str, Any]:
        raise KeyError("topics")

    monitor.event("app.running").emit_deferred(make)
    assert heard == []
    assert [type(occurred["error"]) for occurred in failed] == [KeyError]


def test_a_listener_cannot_change_what_others_receive(monitor: Monitor) -> None:
    heard: list[Any] = []
    monitor.subscribe("app.running", heard.append)
    given = {"topics": ["a"]}
    monitor.instrument("app.running", given)
    with pytest.raises(TypeError):
        heard[0].payload["topics"] = []
    with pytest.raises(AttributeError):
        heard[0].name = "x"
    given["topics"] = []
    assert heard[0]["topics"] == ["a"]
    monitor.instrument("app.running")
    assert heard[1].payload == {}
    assert heard[1].time is None


def test_fields_may_be_called_anything(monitor: Monitor) -> None:
    heard = list[Event]()
    monitor.subscribe("offset.reset", heard.append)
    payload = {"self": 1, "from": 2, "name": 3, "payload": 4, "event": 5, "args": 6}
    monitor.instrument("offset.reset", payload)
    assert heard[0].payload == payload


def test_unknown_events_are_refused_with_what_was_meant(monitor: Monitor) -> None:
    for use in (
        lambda: monitor.event("consumer.dead_leter"),
        lambda: monitor.subscribe("consumer.dead_leter", print),
        lambda: monitor.subscribe("consumer.dead_leter"),
        lambda: monitor.unsubscribe("consumer.dead_leter", print),
        lambda: monitor.instrument("consumer.dead_leter"),
        lambda: monitor.measure("consumer.dead_leter", int),
    ):
        with pytest.raises(
            UnknownEventError, match=r"no event 'consumer\.dead_leter'; did you mean .consumer\.dead_letter"
        ):
            use()
    with pytest.raises(UnknownEventError, match="no event 3"):
        monitor.event(3)  # type: ignore[arg-type]
    with pytest.raises(UnknownEventError, match="no event \\[\\]"):
        monitor.event([])  # type: ignore[arg-type]
    assert issubclass(UnknownEventError, grete.GreteError)


class Ears:
    deaf = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_app_running(self, occurred: Event) -> None:
        self.heard.append(occurred.name)

    def on_swarm_node_died(self, occurred: Event) -> None:
        self.heard.append(f"{occurred.name} {occurred['status']}")


def test_a_listener_object_hears_what_its_methods_are_called_after(monitor: Monitor) -> None:
    ears = Ears()
    monitor.subscribe(ears)
    monitor.instrument("app.running")
    monitor.instrument("app.stopped")
    monitor.instrument("swarm.node.died", {"status": 3})
    assert ears.heard == ["app.running", "swarm.node.died 3"]
    monitor.unsubscribe(ears)
    monitor.unsubscribe(ears)
    monitor.instrument("app.running")
    assert len(ears.heard) == 2


def test_a_listener_object_with_a_wrong_method_listens_to_nothing(monitor: Monitor) -> None:
    class Wrong(Ears):
        def on_app_runing(self, occurred: Event) -> None: ...

    with pytest.raises(UnknownEventError, match=r'Wrong\.on_app_runing: there is no such event; did you mean "on_app_'):
        monitor.subscribe(Wrong())
    assert not monitor.event("app.running")


def test_what_cannot_listen_is_refused(monitor: Monitor) -> None:
    async def late(occurred: Event) -> None: ...

    class LateCall:
        async def __call__(self, occurred: Event) -> None: ...

    class Late:
        async def on_app_running(self, occurred: Event) -> None: ...

    with pytest.raises(TypeError, match="would never be awaited"):
        monitor.subscribe("app.running", late)
    with pytest.raises(TypeError, match="would never be awaited"):
        monitor.subscribe("app.running", LateCall())
    with pytest.raises(TypeError, match="would never be awaited"):
        monitor.subscribe(Late())
    with pytest.raises(TypeError, match="cannot be called"):
        monitor.subscribe("app.running", 3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"subscribe an instance of it, Ears\(\)"):
        monitor.subscribe(Ears)
    with pytest.raises(TypeError, match="no method that is called like on_job_finished"):
        monitor.subscribe(print)
    assert [name for name in monitor if monitor.event(name)] == []


def test_subscribe_decorates(monitor: Monitor) -> None:
    heard: list[str] = []

    @monitor.subscribe("app.running")
    def listener(occurred: Event) -> None:
        heard.append(occurred.name)

    monitor.instrument("app.running")
    monitor.unsubscribe("app.running", listener)
    monitor.instrument("app.running")
    assert heard == ["app.running"]


def test_a_dispatch_goes_on_with_whom_it_began_with(monitor: Monitor) -> None:
    heard: list[str] = []

    def first(_: Event) -> None:
        heard.append("first")
        monitor.unsubscribe("app.running", first)
        monitor.unsubscribe("app.running", second)
        monitor.subscribe("app.running", third)

    def second(_: Event) -> None:
        heard.append("second")

    def third(_: Event) -> None:
        heard.append("third")

    monitor.subscribe("app.running", first)
    monitor.subscribe("app.running", second)
    monitor.instrument("app.running")
    assert heard == ["first", "second"]
    monitor.instrument("app.running")
    assert heard == ["first", "second", "third"]


def test_each_subscription_counts(monitor: Monitor) -> None:
    heard = list[Event]()
    for _ in range(2):
        monitor.subscribe("app.running", heard.append)
    monitor.instrument("app.running")
    monitor.unsubscribe("app.running", heard.append)
    monitor.instrument("app.running")
    assert len(heard) == 3


def test_subscriptions_from_many_threads_are_all_kept(monitor: Monitor) -> None:
    event = monitor.event("app.running")

    class Slow:
        """Equal to nothing but itself, and other threads run while it finds out."""

        def __call__(self, _: Event) -> None: ...

        def __eq__(self, other: object) -> bool:
            time.sleep(0)
            return self is other

        def __hash__(self) -> int:
            return id(self)

    def come_and_go() -> None:
        for _ in range(50):
            staying, leaving = Slow(), Slow()
            event.subscribe(leaving)
            event.subscribe(staying)
            assert event.unsubscribe(leaving)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(event) == 200


def test_a_listener_that_raises_is_logged_and_survived(monitor: Monitor, caplog: pytest.LogCaptureFixture) -> None:
    heard, errors = list[Event](), list[Event]()

    def bad(_: Event) -> None:
        raise ValueError("no")

    monitor.subscribe("app.running", bad)
    monitor.subscribe("app.running", heard.append)
    monitor.subscribe("listener.failed", errors.append)
    monitor.instrument("app.running")
    assert len(heard) == 1
    (error,) = errors
    assert (error["type"], error["of"], str(error["error"])) == ("listener", "app.running", "no")
    assert error["listener"].endswith("<locals>.bad")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.__dict__["event"] == "listener.failed"
    assert record.exc_info is not None
    assert record.exc_info[1] is error["error"]


def test_a_listener_of_errors_that_raises_is_logged_only(monitor: Monitor, caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    def bad(_: Event) -> None:
        nonlocal calls
        calls += 1
        raise ValueError("no")

    monitor.subscribe("app.running", bad)
    monitor.subscribe("listener.failed", bad)
    monitor.instrument("app.running")
    assert calls == 2
    assert [record.__dict__["of"] for record in caplog.records] == ["app.running", "listener.failed"]


def test_a_listener_and_a_log_that_raise_keep_nothing_from_going_on(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unspeakable:
        def __call__(self, _: Event) -> None:
            raise ValueError("no")

        def __repr__(self) -> str:
            raise ValueError("no name either")

    def broken(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("grete.instrumentation.listener_errors.logger.error", broken)
    errors = list[Event]()
    monitor.subscribe("app.running", Unspeakable())
    monitor.subscribe("listener.failed", errors.append)
    monitor.instrument("app.running")
    assert errors[0]["listener"] == "<Unspeakable>"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_comes_out(monitor: Monitor, kind: type[BaseException]) -> None:
    def ends(_: Event) -> None:
        raise kind

    monitor.subscribe("app.running", ends)
    with pytest.raises(kind):
        monitor.instrument("app.running")


def test_measure_emits_how_long_it_took_and_what_came_of_it(monitor: Monitor) -> None:
    event, heard = monitor.declare("shop.charged"), list[Event]()

    def charge(amount: int, *, twice: bool = False) -> int:
        if amount < 0:
            raise ValueError(amount)
        return amount * (2 if twice else 1)

    def both(name: EventChannel | str) -> None:
        assert monitor.measure(name, charge, 3) == 3
        assert monitor.measure(name, charge, 3, twice=True) == 6
        with pytest.raises(ValueError, match="-1"):
            monitor.measure(name, charge, -1)

    both(event)
    both("shop.charged")
    monitor.subscribe("shop.charged", heard.append)
    both(event)
    both("shop.charged")
    assert [str(occurred["error"]) for occurred in heard] == ["None", "None", "-1"] * 2
    assert all(occurred.time is not None and 0 <= occurred.time < 60 for occurred in heard)


def test_no_clock_is_read_without_listeners(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    def read() -> float:
        nonlocal reads
        reads += 1
        return 0.0

    monkeypatch.setattr("grete.instrumentation.monitor.monotonic", read)
    event = monitor.event("app.running")
    monitor.measure(event, int)
    assert reads == 0
    event.subscribe(lambda _: None)
    monitor.measure(event, int)
    assert reads == 2


def test_events_of_ones_own(monitor: Monitor) -> None:
    event, heard = monitor.declare("shop.charged"), list[Event]()
    assert monitor.event("shop.charged") is event
    assert "shop.charged" in list(monitor)

    class Shop:
        def on_shop_charged(self, occurred: Event) -> None:
            heard.append(occurred)

    monitor.subscribe(Shop())
    event.emit(amount=3)
    assert heard[0]["amount"] == 3
    for name in ("shop.charged", "shop_charged", "Shop.charged", "shop.", "app.running", "shop.char ged"):
        with pytest.raises(ValueError, match="event"):
            monitor.declare(name)
    monitor.declare("app.run_ning")
    with pytest.raises(ValueError, match="methods are called the same"):
        monitor.declare("app_run.ning")
    with pytest.raises(UnknownEventError):
        Monitor().event("shop.charged")


def test_monitors_know_nothing_of_each_other(monitor: Monitor) -> None:
    monitor.subscribe("app.running", print)
    assert not Monitor().event("app.running")


@pytest.mark.own_process
def test_a_look_at_an_event_without_listeners_allocates_nothing(monitor: Monitor) -> None:
    event = monitor.event("app.running")

    def look(times: int) -> None:
        for _ in repeat(None, times):
            if event:
                raise AssertionError

    def grown() -> tuple[int, int]:
        look(1)
        blocks, memory = sys.getallocatedblocks(), tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        look(1_000_000)
        # What the loop itself has at a time is a few dozen bytes; one object for each look would be tens of megabytes
        # if it stayed, and at its peak as much more if it did not.
        return sys.getallocatedblocks() - blocks, tracemalloc.get_traced_memory()[1] - memory

    gc.disable()
    tracemalloc.start()
    try:
        blocks, peak = min(grown() for _ in range(3))
    finally:
        tracemalloc.stop()
        gc.enable()
    assert blocks <= 2
    assert peak < 512


def test_a_monitor_that_its_listeners_know_is_collected() -> None:
    class Knows:
        def __init__(self) -> None:
            self.monitor = Monitor()
            self.last: Event | None = None
            self.monitor.subscribe(self)

        def on_app_running(self, occurred: Event) -> None:
            self.last = occurred

    knows = Knows()
    knows.monitor.instrument("app.running", {"knows": knows})
    gone = weakref.ref(knows)
    del knows
    gc.collect()
    assert gone() is None


def test_the_clocks_are_plain_floats() -> None:
    for read in (clock.monotonic, clock.realtime):
        assert type(read()) is float
    assert abs(clock.realtime() - datetime.now(UTC).timestamp()) < 60
    assert clock.monotonic() <= clock.monotonic()


def test_an_occurrence_stays_in_its_process(monitor: Monitor) -> None:
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(monitor.event("app.running"))
