"""Jobs: records handed over one by one, and what is marked."""

import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import grete
from grete import _native
from grete.instrumentation import Monitor
from tests.unit.dispatcher_feed import DispatcherFeed, offsets, values


def read(message: grete.Message) -> tuple[int, bytes | None]:
    return message.offset, message.value


def test_each_hands_over_all_records_in_order() -> None:
    feed = DispatcherFeed()
    feed.push([*values(100)])
    job = feed.next()
    seen: list[tuple[int, bytes | None]] = []
    job.each(lambda message: seen.append(read(message)))
    assert seen == [(number, b"%d" % number) for number in range(100)]
    feed.dispatcher.complete(job)
    assert feed.lane.committable() == 100
    assert feed.dispatcher.counts() == {
        "jobs": 1,
        "records": 100,
        "failures": 0,
        "dead_letters": 0,
        "expired": 0,
        "duplicates": 0,
        "stalled": 0,
    }


def test_a_job_is_plain_without_listeners_and_when_it_has_records() -> None:
    monitor = Monitor()
    feed = DispatcherFeed(events=monitor.job_events, max_messages=1)
    feed.push([*values(20)])
    job, found = None, list[bool]()
    for event in ("job.started", "job.finished", "message.process", "message.processed"):
        for change in (monitor.subscribe, monitor.unsubscribe):
            job = feed.next(job)
            found.append(job.unobserved)
            change(event, print)
            assert job.unobserved is found[-1]
    assert found == [True, False] * 4
    monitor.subscribe("consumer.tick", print)
    job = feed.next(job)
    assert job.unobserved
    feed.lane.revoke()
    job = feed.next(job)
    assert (job.kind, job.unobserved) == ("revoked", False)


def test_messages_that_are_kept_stay_what_they_are() -> None:
    feed = DispatcherFeed()
    feed.push([*values(10)])
    job = feed.next()
    kept: list[grete.Message] = []
    job.each(lambda message: kept.append(message) if message.offset % 3 == 0 else None)
    assert [read(message) for message in kept] == [(number, b"%d" % number) for number in range(0, 10, 3)]
    assert job.messages is not None
    assert [read(message) for message in list(job.messages)] == [read(message) for message in job.messages]
    pairs = list(itertools.pairwise(job.messages))
    assert [(a.offset, b.offset) for a, b in pairs] == list(itertools.pairwise(range(10)))
    assert len({id(message) for message in list(job.messages)}) == 10


@pytest.mark.parametrize("keep", [True, False])
def test_each_needs_no_python_function(keep: bool) -> None:
    feed = DispatcherFeed()
    feed.push([*values(200)])
    job = feed.next()
    kept: list[grete.Message] = []
    job.each(kept.append if keep else repr)
    assert [message.offset for message in kept] == (list(range(200)) if keep else [])


class Interrupted(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("python", [True, False])
def test_signals_are_answered_while_each_runs(python: bool) -> None:
    def handler(_signum: int, _frame: FrameType | None) -> None:
        raise Interrupted

    feed = DispatcherFeed(max_messages=100_000)
    feed.push([*values(3000)])
    job = feed.next()
    calls = itertools.count()

    def record(_message: object) -> None:
        if next(calls) == 5:
            signal.raise_signal(signal.SIGALRM)

    class Native:
        """Runs Python code where `each` does not know of it."""

        __call__ = staticmethod(record)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Interrupted):
            job.each(record if python else Native())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert next(calls) < 100


def test_other_threads_run_while_each_runs_a_native_function() -> None:
    feed = DispatcherFeed(max_messages=100_000)
    feed.push([b""] * 20_000)
    job = feed.next()
    seen: list[object] = []
    between = threading.Event()
    over = threading.Event()

    def observe() -> None:
        while not over.is_set():
            if len(seen) % 20_000:
                between.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=observe)
    thread.start()
    deadline = time.monotonic() + 60
    try:
        while not between.is_set():
            assert time.monotonic() < deadline, "no other thread ran before a job was over"
            job.each(seen.append)  # a method of a list runs no Python code, which would see to it by itself
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_marks_of_a_job_that_failed_are_kept() -> None:
    feed = DispatcherFeed()
    feed.push([*values(6)])
    job = feed.next()
    assert job.messages is not None
    assert job.mark(job.messages[1], through=True) == 2
    assert job.mark(job.messages[3]) == 1
    feed.fail(job)
    assert feed.lane.committable() == 2
    job = feed.next()
    assert offsets(job) == [2, 4, 5]
    assert job.mark_all() == 3
    assert job.mark_all() == 0


def abandon(feed: DispatcherFeed) -> None:
    feed.lane.revoke()
    feed.lane.abandon()


def test_what_an_abandoned_job_does_counts_for_nothing() -> None:
    feed = DispatcherFeed()
    feed.push([*values(6)])
    job = feed.next()
    messages = job.messages
    assert messages is not None
    job.mark(messages[0])
    seen: list[int] = []

    def handler(message: grete.Message) -> None:
        seen.append(message.offset)
        if message.offset == 2:
            abandon(feed)

    with pytest.raises(grete.RevokedError, match="not this job's any more"):
        job.each(handler)
    assert seen == [0, 1, 2]
    for call in (lambda: job.mark(messages[3]), job.mark_all, lambda: job.progress(6)):
        with pytest.raises(grete.RevokedError):
            call()
    assert feed.fail(job).kind == "refused"
    assert feed.lane.committable() is None
    (notice,) = [n for n in feed.dispatcher.drain_log_events() if n.name == "consumer.abandoned"]
    assert notice.fields["handler"] == "Orders.consume"
    assert (notice.fields["topic"], notice.fields["partition"], notice.fields["worker"]) == ("orders", 0, "worker")
    assert "Orders.consume (consume) runs for" in notice.message


def test_a_job_ends_once() -> None:
    feed = DispatcherFeed()
    feed.push([*values(2)])
    job = feed.next()
    feed.dispatcher.complete(job)
    feed.dispatcher.complete(job)
    assert feed.fail(job).kind == "refused"
    assert job.messages is None
    with pytest.raises(ValueError, match="has been given back"):
        job.each(repr)
    assert feed.lane.committable() == 2


def test_failure_actions_are_words() -> None:
    feed = DispatcherFeed()
    feed.push([b"a"])
    job = feed.next()
    with pytest.raises(ValueError, match="retry, give_up, give_up_all, reject, later or fatal"):
        feed.fail(job, "again")
    assert feed.fail(job).kind == "retry"


def test_bad_routes_are_refused() -> None:
    good: dict[str, Any] = {"id": 1, "name": "h", "topics": ["t"]}
    route = _native.Route(**good)
    assert (route.id, route.name, route.topics, repr(route)) == (1, "h", ["t"], "<Route 1 h of t>")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"pool": "processes"}, "pool is one of threads, loop"),
        ({"concurrency": "row"}, "partition, key, unordered"),
        ({"offsets": "none"}, "auto, manual, at_most_once"),
        ({"max_messages": 0}, "max_messages is at least 1"),
        ({"attempts": 0}, "at least 1, or None for no limit"),
        ({"backoff": (-1.0, 2.0)}, "backoff is a number of seconds"),
        ({"jitter": 2.0}, "a share of the wait"),
        ({"rate_limit": (0, 1.0)}, "rate_limit of 0"),
        ({"tick": float("nan")}, "tick is a number"),
    ]
    for bad, text in wrong:
        with pytest.raises(ValueError, match=text):
            _native.Route(**good | bad)


# Workers


def test_workers_above_the_count_end_where_they_wait() -> None:
    feed = DispatcherFeed()
    ended: list[int] = []

    def work(number: int) -> None:
        worker = _native.Worker(f"w{number}", feed.dispatcher, number)
        assert feed.dispatcher.next(worker) is None
        ended.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    feed.dispatcher.set_workers(2)
    for thread in threads[2:]:
        thread.join(30)
    assert sorted(ended) == [3, 4]
    feed.dispatcher.stop()
    for thread in threads:
        thread.join(30)
    assert sorted(ended) == [3, 4] or sorted(ended) == [1, 2, 3, 4]


def test_each_ends_with_the_first_exception_and_marks_what_came_before() -> None:
    feed = DispatcherFeed()
    feed.push([*values(10)])

    def handler(message: grete.Message) -> None:
        if message.offset == 6 and job.attempt == 1:
            raise ValueError("six")

    job = feed.next()
    with pytest.raises(ValueError, match="six") as caught:
        job.each(handler)
    assert job.failed_offset(caught.value) == 6
    decision = feed.fail(job, offset=6)
    assert (decision.kind, decision.attempt, decision.rows) == ("retry", 2, 4)
    assert feed.lane.committable() == 6
    job = feed.next()
    assert (job.attempt, offsets(job)) == (2, [6, 7, 8, 9])
    job.each(handler)
    feed.dispatcher.complete(job)
    assert feed.lane.committable() == 10


def test_progress_is_what_is_not_presented_again() -> None:
    feed = DispatcherFeed()
    feed.push([*values(6)])
    job = feed.next()
    job.progress(4)
    feed.fail(job)
    assert offsets(feed.next()) == [4, 5]


LEAVE: dict[str, Callable[[DispatcherFeed], object]] = {
    "revoked": lambda feed: feed.lane.revoke(),
    "shutdown": lambda feed: feed.dispatcher.stop(),
}


def run_each(job: _native.Job, handler: Callable[[int], object], payloads: bool) -> None:
    """`handler` gets the record's number."""
    if payloads:
        job.each_payload(handler)
    else:
        job.each(lambda message: handler(message.offset))


@pytest.mark.parametrize("payloads", [False, True])
@pytest.mark.parametrize("why", LEAVE)
def test_a_lane_that_leaves_takes_what_is_done_and_leaves_the_rest(why: str, payloads: bool) -> None:
    feed = DispatcherFeed(decoder=int)
    feed.push([*values(500)])
    job = feed.next()
    seen: list[int] = []

    def handler(number: int) -> None:
        seen.append(number)
        if number == 6:
            assert not job.leaving
            LEAVE[why](feed)
            assert job.leaving

    run_each(job, handler, payloads)
    assert seen == [*range(7)], "the record that had begun was the last"
    last = feed.next(job)
    assert (last.kind, last.lost) == (why, False)
    feed.dispatcher.complete(last)
    if why == "shutdown":  # a lane that was revoked has said it to its client on its end
        assert feed.lane.committable() == 7
    counts = feed.dispatcher.counts()
    assert (counts["records"], counts["failures"]) == (7, 0)


@pytest.mark.parametrize("payloads", [False, True])
@pytest.mark.parametrize("settings", [{}, {"offsets": "at_most_once"}])
def test_each_goes_on_when_quiet_and_at_most_once(settings: dict[str, Any], payloads: bool) -> None:
    feed = DispatcherFeed(decoder=int, **settings)
    feed.push([*values(10)])
    job = feed.next()
    seen: list[int] = []

    def handler(number: int) -> None:
        seen.append(number)
        if number == 3:
            feed.dispatcher.quiet()
            if settings:  # no other worker gets what is committed already
                feed.dispatcher.stop()
        assert not job.leaving

    run_each(job, handler, payloads)
    assert seen == [*range(10)]
    feed.dispatcher.complete(job)
    assert feed.dispatcher.counts()["records"] == 10


def test_a_consumer_may_look_whether_its_partition_leaves_and_stop_at_a_mark() -> None:
    feed = DispatcherFeed()
    feed.push([*values(10)])
    job = feed.next()
    assert job.messages is not None
    consumer = grete.Consumer()
    looks = [consumer.leaving]
    consumer._job = job
    looks.append(consumer.leaving)
    feed.dispatcher.stop()
    looks.append(consumer.leaving)
    assert looks == [False, False, True], "outside of consume, inside, and when there is a reason"
    consumer.mark(job.messages[3], through=True)
    assert feed.fail(job, "later").kind == "halt"
    assert feed.lane.committable() == 4


def test_a_job_that_does_not_ask_is_done_as_a_whole() -> None:
    feed = DispatcherFeed()
    feed.push([*values(10)])
    job = feed.next()
    feed.dispatcher.stop()
    job.progress(4)
    feed.dispatcher.complete(job)
    assert feed.lane.committable() == 10


def test_a_pause_lasts_until_its_end() -> None:
    feed = DispatcherFeed(max_messages=1)
    feed.push([*values(2)])
    job = feed.next()
    feed.dispatcher.pause(job, 0.05)
    job = feed.next(job)
    assert offsets(job) == [1]
