"""What a process reports of its health while it works."""

import fcntl
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grete import _native
from grete.errors import GreteError
from tests.kafka import eventually
from tests.unit.dispatcher_feed import DispatcherFeed
from tests.unit.reporting_process import ReportPipe, threads, wakeups


class Pipe:
    """A pipe, and what reports into it. Without a reader this process would end: reports end before the pipe does."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.reports = ReportPipe(self.reader)
        self.reporting: list[_native.Health] = []

    def start(self, interval: float, feed: DispatcherFeed | None = None, *, canary: bool = True) -> _native.Health:
        health = _native.Health((feed or DispatcherFeed()).dispatcher)
        health.report(self.writer, interval, canary)
        self.reporting.append(health)
        return health

    def close(self) -> None:
        for health in self.reporting:
            health.close()
        self.reporting.clear()
        gc.collect()
        os.close(self.writer)
        os.close(self.reader)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def gone() -> None:
    """They have been joined; the kernel may show them for a moment still."""
    eventually(lambda: not threads(), 10.0, "the end of both threads")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_an_app_that_starts_works_and_stops(pipe: Pipe) -> None:
    feed, reports = DispatcherFeed(handler_timeout=0.05, stall_after=3600.0), pipe.reports
    pipe.start(0.01, feed)
    first = reports.next()
    assert (first.seq, first.ready, first.workers, first.groups) == (0, False, 0, ())
    assert (first.quiet, first.stopping, first.oldest, first.overdue) == (False, False, None, ())
    assert first.rss is not None
    assert 1 << 20 < first.rss < 1 << 40
    feed.dispatcher.set_workers(3)
    reports.until(lambda report: report.ready and report.workers == 3, "workers")
    feed.push([b"a", b"b"])
    job = feed.next()
    report = reports.until(lambda report: bool(report.overdue), "a job that is too long")
    late = report.overdue[0]
    assert (late.handler, late.topic, late.partition, late.limit) == ("Orders.consume", "orders", 0, 0.05)
    assert late.seconds > 0.05
    assert report.lanes.running == 1
    assert report.oldest is not None
    assert (report.oldest.handler, report.oldest.topic, report.oldest.partition) == ("Orders.consume", "orders", 0)
    assert (report.oldest.seconds, report.oldest.overdue) == (late.seconds, True)
    feed.dispatcher.complete(job)
    done = reports.until(lambda report: report.jobs == 1, "the end of a job")
    assert (done.records, done.failures, done.oldest, done.overdue) == (2, 0, None, ())
    feed.push([b"c"], first=2)
    feed.fail(feed.next())
    reports.until(lambda report: report.failures == 1, "a failure")
    feed.dispatcher.quiet()
    reports.until(lambda report: report.quiet and not report.stopping, "quiet")
    feed.dispatcher.stop()
    last = reports.until(lambda report: report.stopping, "a stop")
    assert last.quiet
    assert [report.seq for report in reports.all] == list(range(len(reports.all)))


def test_a_client_that_is_no_member_yet_is_not_ready(pipe: Pipe) -> None:
    feed = DispatcherFeed()
    health = pipe.start(0.01, feed)
    client = _native.Client([("bootstrap.servers", "127.0.0.1:1"), ("group.id", "shop")], feed.dispatcher, [feed.route])
    health.add_client(client)
    client.subscribe(["orders"])
    feed.dispatcher.set_workers(1)
    report = pipe.reports.until(lambda report: report.workers == 1 and bool(report.groups), "a client")
    group = report.groups[0]
    assert (group.group, group.ready, group.generation, group.partitions) == ("shop", False, None, 0)
    assert group.state
    assert not report.ready
    client.close(0.0)


@pytest.mark.own_process
def test_closing_ends_the_threads_and_the_pipe(pipe: Pipe) -> None:
    gc.collect()  # what others have left is not ours to count
    before = descriptors()
    health = pipe.start(3600.0)
    pipe.reports.next()
    eventually(lambda: len(threads()) == 2, 30.0, "both threads")
    health.close()
    health.close()
    gone()
    del health
    pipe.reporting.clear()
    gc.collect()
    assert descriptors() == before


@pytest.mark.own_process
def test_one_that_is_dropped_is_closed(pipe: Pipe) -> None:
    health = _native.Health(DispatcherFeed().dispatcher)
    health.report(pipe.writer, 0.001)
    eventually(lambda: len(threads()) == 2, 30.0, "both threads")
    del health
    gone()


def test_it_reports_to_one_pipe(pipe: Pipe) -> None:
    health = pipe.start(0.001)
    with pytest.raises(RuntimeError, match="it reports already"):
        health.report(pipe.writer, 0.001)


@pytest.mark.own_process
def test_the_canary_may_be_left_out(pipe: Pipe) -> None:
    pipe.start(0.001, canary=False)
    assert [pipe.reports.next().gil_wait for _ in range(3)] == [0.0, 0.0, 0.0]
    assert threads() == {"grete-health"}


def test_a_full_pipe_costs_reports_and_nothing_else(pipe: Pipe) -> None:
    fcntl.fcntl(pipe.writer, fcntl.F_SETPIPE_SZ, 4096)
    feed = DispatcherFeed()
    pipe.start(0.001, feed)
    beats = wakeups("grete-health")
    # Ten reports do not go into 4,096 bytes.
    eventually(lambda: wakeups("grete-health") > beats + 10, 30.0, "beats that are not read")
    for number in range(100):
        feed.push([b"x"], first=number)
        feed.dispatcher.complete(feed.next())
    late = pipe.reports.until(lambda report: report.dropped > 0 and report.jobs == 100, "what happened meanwhile")
    assert late.seq == pipe.reports.all.index(late) + late.dropped


@pytest.mark.own_process
@pytest.mark.parametrize("interval", [0.0, -1.0, float("nan"), float("inf"), 1e-12, 3601.0])
def test_an_interval_that_is_none_is_refused(interval: float, pipe: Pipe) -> None:
    with pytest.raises(ValueError, match=r"an interval is above 0 and at most 3600 s"):
        pipe.start(interval)
    assert threads() == set()


@pytest.mark.own_process
def test_what_cannot_be_written_to_is_refused(pipe: Pipe) -> None:
    with pytest.raises(GreteError, match="open for reading only; give the write end of an open pipe"):
        _native.Health(DispatcherFeed().dispatcher).report(pipe.reader, 1.0)
    with pytest.raises(GreteError, match="health reports cannot go to descriptor 999999"):
        _native.Health(DispatcherFeed().dispatcher).report(999_999, 1.0)
    assert threads() == set()
