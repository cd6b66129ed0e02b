"""The engine, with a dispatcher made up here."""

import threading
from typing import Any

import pytest

import grete
from grete import _core
from grete.processing.engine import Engine
from grete.processing.production import Production
from grete.routes import make


class FakeDispatcher:
    """Has its workers wait until it is told to end."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.inside = threading.Semaphore(0)

    def next(self, _worker: object, *_: object) -> None:
        self.inside.release()
        self.over.wait(30)

    def running(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": "orders",
                "partition": 3,
                "route": 0,
                "kind": "consume",
                "worker": "grete-worker-1",
                "seconds": 12.34,
            }
        ]


class Control:
    def fail(self, error: BaseException) -> None:
        raise AssertionError from error

    def ending(self, thread: threading.Thread) -> None:
        pass


def orders(messages: grete.Messages) -> None:
    """A handler."""


@pytest.fixture
def dispatcher() -> FakeDispatcher:
    return FakeDispatcher()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, dispatcher: FakeDispatcher) -> Engine:
    monkeypatch.setattr(_core, "Worker", lambda name, dispatcher, number: (name, dispatcher, number))
    routes = [make(0, ("orders",), orders, {})]
    config = {"workers": 2}
    return Engine(routes, dispatcher, {}, Production({}, lambda _producer: True), config, Control(), {0: "billing"})  # type: ignore[arg-type]


def test_running_jobs_are_described_with_their_stacks(engine: Engine, dispatcher: FakeDispatcher) -> None:
    engine.start()
    try:
        for _ in engine.threads:
            assert dispatcher.inside.acquire(timeout=30)
        (text,) = engine.describe_running()
    finally:
        dispatcher.over.set()
    for thread in engine.threads:
        thread.join(30)
    first, _, stack = text.partition("\n")
    assert first == "orders on orders[3] for 12.3 s in grete-worker-1"
    assert "self.over.wait(30)" in stack


def test_more_workers_are_started(engine: Engine, dispatcher: FakeDispatcher) -> None:
    engine.start()
    engine.scale(4)
    for _ in range(4):
        assert dispatcher.inside.acquire(timeout=30)
    dispatcher.over.set()
    assert [thread.name for thread in engine.threads] == [f"grete-worker-{number}" for number in range(1, 5)]
    for thread in engine.threads:
        thread.join(30)
