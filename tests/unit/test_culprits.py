"""Which record of a job failed, where that can be known."""

import gc
from collections.abc import Callable, Iterator

import pytest

import grete
from tests.unit.dispatcher_feed import DispatcherFeed, values


def by_rows(messages: grete.Messages) -> None:
    for message in messages:
        if message.offset == 3:
            raise ValueError


def by_the_last_row(messages: grete.Messages) -> None:
    for message in messages:
        if message.offset == 4:
            raise ValueError


def by_slices(messages: grete.Messages) -> None:
    for part in (messages[:2], messages[2:]):
        by_rows(part)


def by_comprehension(messages: grete.Messages) -> None:
    [1 // (3 - message.offset) for message in messages]


def by_map(messages: grete.Messages) -> None:
    list(map(lambda message: 1 // (3 - message.offset), messages))  # noqa: C417


def by_enumerate(messages: grete.Messages) -> None:
    for number, _ in enumerate(messages):
        if number == 3:
            raise ValueError


def by_kept_iterator(messages: grete.Messages) -> None:
    rows = iter(messages)
    for message in rows:
        if message.offset == 3:
            raise ValueError


def reraised(messages: grete.Messages) -> None:
    try:
        by_rows(messages)
    except ValueError as error:
        raise RuntimeError("reworded") from error


def in_a_finally(messages: grete.Messages) -> None:
    try:
        by_rows(messages)
    finally:
        raise RuntimeError("while cleaning up")


def by_columns(messages: grete.Messages) -> None:
    messages.values()
    raise ValueError


def after_the_iteration(messages: grete.Messages) -> None:
    for _ in messages:
        pass
    raise ValueError


def after_a_break(messages: grete.Messages) -> None:
    for message in messages:
        if message.offset == 2:
            break
    raise ValueError


def after_a_look_at_the_first(messages: grete.Messages) -> None:
    next(iter(messages))
    raise ValueError


def after_a_caught_failure(messages: grete.Messages) -> None:
    error = None
    try:
        by_rows(messages)
    except ValueError as caught:
        error = caught
    assert error is not None
    raise_something_else()


def raise_something_else() -> None:
    raise RuntimeError("of its own")


def after_a_stopped_generator(messages: grete.Messages) -> None:
    def rows() -> Iterator[grete.Message]:
        yield from messages

    for message in rows():
        if message.offset == 2:
            break
    gc.collect()
    raise ValueError


def in_an_outer_loop(messages: grete.Messages) -> None:
    for message in messages:
        for _ in messages[:2]:
            pass
        for other in messages:
            if other.offset == 1:
                break
        if message.offset == 3:
            raise ValueError


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (by_rows, 3),
        (by_the_last_row, 4),
        (by_slices, 3),
        (by_comprehension, 3),
        (by_map, 3),
        (by_enumerate, 3),
        (by_kept_iterator, 3),
        (reraised, 3),
        (in_a_finally, 3),
        (by_columns, None),
        (after_the_iteration, None),
        (after_a_break, None),
        (after_a_look_at_the_first, None),
        (after_a_caught_failure, None),
        (after_a_stopped_generator, None),
        (in_an_outer_loop, None),
    ],
)
def test_the_record_that_failed_is_known_where_it_can_be(
    handler: Callable[[grete.Messages], None], expected: int | None
) -> None:
    feed = DispatcherFeed()
    feed.push([*values(5)])
    job = feed.next()
    assert job.messages is not None
    with pytest.raises((ValueError, RuntimeError, ZeroDivisionError)) as caught:
        handler(job.messages)
    assert job.failed_offset(caught.value) == expected


def test_the_only_record_is_the_one_that_failed() -> None:
    feed = DispatcherFeed()
    feed.push([b"a"], first=7)
    job = feed.next()
    assert job.failed_offset() == 7
