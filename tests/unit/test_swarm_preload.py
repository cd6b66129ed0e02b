"""What is loaded before the fork."""

from __future__ import annotations

import functools
import gc
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

import grete
from grete._lifecycle.preload import Preloads
from grete._swarm.preflight import preload

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}
HERE = "test_swarm_preload.py"


def fails() -> None:
    helper()


def helper() -> None:
    raise ValueError("no model")


def exits() -> None:
    sys.exit(3)


async def later() -> None:
    """Nothing."""


async def later_and_later() -> Any:
    yield 1


def yields() -> Any:
    yield 1


def with_argument(path: str) -> None:
    """Nothing."""


class Loader:
    def __init__(self) -> None:
        self.loaded = 0

    def __call__(self) -> None:
        self.loaded += 1

    def load(self) -> None:
        self.loaded += 1


class AsyncLoader:
    async def __call__(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (later, "preload later is async, and no event loop runs before the fork"),
        (later_and_later, "is async"),
        (AsyncLoader(), "preload AsyncLoader is async"),
        (yields, "preload yields has a yield"),
        (with_argument, "is called without arguments: missing a required argument: 'path'"),
        (None, "without parentheses, not None"),
        ("load", "stands before a function"),
    ],
)
def test_what_cannot_be_run_is_refused_where_it_is_declared(function: Any, says: str) -> None:
    app = grete.App("a", kafka=KAFKA)
    with pytest.raises(grete.ConfigError, match=says) as caught:
        app.preload(function)
    assert HERE in str(caught.value.location)
    assert len(app.preloads) == 0


def test_all_that_can_be_called_is_run_once_and_in_order(caplog: pytest.LogCaptureFixture) -> None:
    app = grete.App("a", kafka=KAFKA)
    order: list[int] = []
    loader = Loader()
    assert app.preload(loader) is loader
    app.preload(functools.partial(order.append, 1))
    app.preload(lambda: order.append(2))
    app.preload(loader.load)
    with caplog.at_level(logging.INFO, "grete"):
        app.preloads.run()
        app.preloads.run()
    assert (order, loader.loaded) == ([1, 2], 2)
    events = [record for record in caplog.records if getattr(record, "event", "") == "app.preloaded"]
    assert len(events) == 4
    assert "preload Loader.load (" in events[3].message
    assert HERE in events[3].message


def declared(function: Callable[[], object]) -> Preloads:
    preloads = Preloads()
    preloads.add(function, "shop.py:5")
    return preloads


def test_a_preload_that_raises_is_reported_with_the_users_own_frames() -> None:
    with pytest.raises(grete.PreloadError) as caught:
        declared(fails).run()
    text = str(caught.value)
    assert text.startswith("preload fails (shop.py:5) failed:\n")
    assert "in fails\n" in text
    assert "in helper\n" in text
    assert text.endswith("ValueError: no model")
    assert "preload.py" not in text.replace(HERE, "")
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_preload_that_exits_is_refused() -> None:
    with pytest.raises(grete.PreloadError, match=r"called sys.exit\(3\); one that cannot do its work raises") as caught:
        declared(exits).run()
    assert "in exits\n" in str(caught.value)


def test_one_that_returns_an_awaitable_is_refused() -> None:
    with pytest.raises(grete.PreloadError, match="returned an awaitable"):
        declared(lambda: later()).run()


def test_an_interrupt_is_no_failure() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        declared(interrupted).run()


def test_a_failed_one_is_tried_again_and_those_before_it_are_not() -> None:
    order: list[str] = []

    def second() -> None:
        order.append("second")
        if len(order) == 2:
            raise ValueError

    preloads = declared(lambda: order.append("first"))
    preloads.add(second, "")
    with pytest.raises(grete.PreloadError):
        preloads.run()
    preloads.run()
    assert order == ["first", "second", "second"]


def test_a_run_begins_with_the_preloads() -> None:
    app = grete.App("a", kafka=KAFKA)

    @app.consumer("orders")
    def orders(messages: grete.Messages) -> None:
        """Nothing."""

    app.preload(fails)
    for begin in (app.run, app.start):
        with pytest.raises(grete.PreloadError, match="preload fails"):
            begin()


def test_what_is_frozen_is_not_looked_at_again() -> None:
    try:
        preload.freeze_heap()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
