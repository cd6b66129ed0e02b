"""Plain functions that return what has to be awaited: nothing of it has run, so the record is not processed."""

import functools
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import grete
from tests.unit.dispatcher_feed import DispatcherFeed, offsets, values

seen: list[object] = []


async def later(message: object) -> None:
    seen.append(message)


@functools.wraps(later)
def wrapped(message: object) -> Awaitable[None]:
    """What a decorator that knows nothing of async makes."""
    return later(message)


class Promise:
    def __await__(self) -> Any:
        yield


@pytest.mark.parametrize("each", ["each", "each_payload"])
@pytest.mark.parametrize(
    ("function", "says"),
    [
        (wrapped, "later is no async def and returned a coroutine, which was not awaited: declare it async def"),
        (lambda _: Promise(), "returned a Promise, which was not awaited"),
    ],
)
def test_they_fail_at_their_record(each: str, function: Callable[[object], object], says: str) -> None:
    feed = DispatcherFeed(decoder=bytes.decode)
    feed.push([*values(3)])
    job = feed.next()
    with warnings.catch_warnings(record=True) as warned, pytest.raises(grete.GreteError, match=says):
        getattr(job, each)(function)
    assert not [warning for warning in warned if "never awaited" in str(warning.message)]
    assert job.failed_offset() == 0
    feed.fail(job)
    assert offsets(feed.next()) == [0, 1, 2]
    assert seen == []


def test_other_results_are_ignored() -> None:
    feed = DispatcherFeed(decoder=bytes.decode)
    feed.push([*values(5)])
    job = feed.next()
    job.each(lambda message: message)
    job.each_payload(lambda payload: (payload, 3))
    feed.dispatcher.complete(job)
    assert feed.lane.committable() == 5
