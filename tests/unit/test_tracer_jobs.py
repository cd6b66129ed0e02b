"""A tracer that listens to an App: a span for each job, and for each record on request."""

import asyncio
import contextvars
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import grete
from grete import _native
from grete.instrumentation import Monitor
from grete.instrumentation.datadog import Span, Tracer
from tests.kafka.waiting import eventually
from tests.unit.fake_agent import FakeAgent, answer, fake_agent
from tests.unit.fake_jobs import FakeJob
from tests.unit.record_batches import Record, batch
from tests.unit.test_hook_runner import Rig

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
Headers = list[tuple[str, bytes | None]]


def sender(span_id: int, trace: str = TRACE) -> Headers:
    return [("traceparent", f"00-{trace}-{span_id:016x}-01".encode())]


def job_of(*headers: Headers, **place: Any) -> FakeJob:
    """A job with a record for each of these headers, at offset 5 and so on."""
    records = [Record(5 + at, b"101", headers=of_one) for at, of_one in enumerate(headers)]
    return FakeJob(messages=_native._testing_decode(batch(records), "orders", 3, decoder=int), **place)


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as agent:
        yield agent


@pytest.fixture
def monitor() -> Monitor:
    return Monitor()


@pytest.fixture
def tracer(agent: FakeAgent, monitor: Monitor) -> Iterator[Tracer]:
    tracer = Tracer("orders", agent=agent.url)
    monitor.subscribe(tracer)
    yield tracer
    tracer.close()


def run(handler: Any, monitor: Monitor, *jobs: FakeJob, **settings: Any) -> None:
    Rig(handler, monitor=monitor, **settings).run(*jobs)


def nothing(messages: grete.Messages) -> None:
    pass


def test_a_job_has_a_span_that_says_what_it_was(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    run(nothing, monitor, job_of([], [], attempt=2))
    assert tracer.flush()
    (span,) = agent.spans
    assert (span["name"], span["resource"], span["type"], span["service"]) == (
        "kafka.consume",
        "nothing",
        "worker",
        "orders",
    )
    assert (span["parent_id"], span["error"]) == (0, 0)
    assert "span_links" not in span
    said = {key: value for key, value in span["meta"].items() if not key.startswith(("_dd", "runtime", "language"))}
    assert said == {
        "component": "grete", "span.kind": "consumer", "messaging.system": "kafka",
        "messaging.destination.name": "orders", "messaging.destination.partition.id": "3",
        "messaging.consumer.group.name": "billing",
    }  # fmt: skip
    numbers = {key: value for key, value in span["metrics"].items() if key.startswith(("messaging", "grete"))}
    assert numbers == {
        "messaging.batch.message_count": 2, "messaging.kafka.first_offset": 5, "messaging.kafka.last_offset": 6,
        "grete.attempt": 2,
    }  # fmt: skip


def test_the_sender_of_the_only_record_is_the_parent(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    run(nothing, monitor, job_of(sender(7)))
    assert tracer.flush()
    (span,) = agent.spans
    assert (span["trace_id"], span["meta"]["_dd.p.tid"], span["parent_id"]) == (int(TRACE[16:], 16), TRACE[:16], 7)
    assert "span_links" not in span


def test_each_sender_of_a_batch_is_linked_once(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    other = TRACE.replace("4", "5")
    run(nothing, monitor, job_of(sender(7), [], sender(8), sender(7), sender(7, other), [("other", b"x")]))
    assert tracer.flush()
    (span,) = agent.spans
    links = [(f"{link['trace_id_high']:016x}{link['trace_id']:016x}", link["span_id"]) for link in span["span_links"]]
    assert links == [(TRACE, 7), (TRACE, 8), (other, 7)]
    assert span["parent_id"] == 0
    assert span["trace_id"] != int(TRACE[16:], 16)
    assert "grete.unlinked" not in span["metrics"]


def test_links_are_bounded_and_what_is_beyond_is_counted(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    run(nothing, monitor, job_of(*(sender(1 + at % 130) for at in range(300))))
    assert tracer.flush()
    (span,) = agent.spans
    assert [link["span_id"] for link in span["span_links"]] == list(range(1, 129))
    assert span["metrics"]["grete.unlinked"] == 2


BROKEN: list[Headers] = [
    [("traceparent", b"")],
    [("traceparent", b"\xff\xfe")],
    [("traceparent", b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01")],
    [("traceparent", f"00-{TRACE}-0000000000000000-01".encode())],
    [("traceparent", f"ff-{TRACE}-00f067aa0ba902b7-01".encode())],
    [("traceparent", f"00-{TRACE}-00f067aa0ba902b7".encode())],
    [("traceparent", f"00-{TRACE.upper()}-00f067aa0ba902b7-01".encode())],
    [("traceparent", b"x" * 100_000)],
    [("x-datadog-trace-id", b"none"), ("x-datadog-parent-id", b"7")],
    [("x-datadog-trace-id", b"-1"), ("x-datadog-parent-id", b"7")],
    [("x-datadog-trace-id", b"18446744073709551616"), ("x-datadog-parent-id", b"7")],
    [("X-Datadog-Trace-Id", b"7"), ("x-datadog-parent-id", b"\x00")],
]


@pytest.mark.parametrize("headers", BROKEN)
def test_broken_headers_are_ignored_and_counted(
    agent: FakeAgent, monitor: Monitor, tracer: Tracer, headers: Headers
) -> None:
    run(nothing, monitor, job_of(headers), job_of(headers, sender(7)))
    assert tracer.flush()
    alone, batched = agent.spans
    assert alone["parent_id"] == 0
    assert [link["span_id"] for link in batched["span_links"]] == [7]
    assert tracer.statistics()["broken_headers"] == 2


def test_a_header_without_a_value_is_none(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    run(nothing, monitor, job_of([("traceparent", None)]))
    assert tracer.flush()
    assert agent.spans[0]["parent_id"] == 0
    assert tracer.statistics()["broken_headers"] == 0


def test_the_span_is_current_inside_of_the_handler(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    def insert(messages: grete.Messages) -> None:
        with tracer.start("db.insert"):
            pass

    run(insert, monitor, job_of(sender(7)), job_of([], []))
    assert Tracer.current() is None
    assert tracer.flush()
    for trace in agent.requests[0].traces:
        job, child = trace
        assert (job["name"], child["name"]) == ("kafka.consume", "db.insert")
        assert (child["trace_id"], child["parent_id"]) == (job["trace_id"], job["span_id"])


def test_each_task_has_its_own_jobs_span(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    current: list[tuple[Span | None, Span | None]] = []

    async def insert(messages: grete.Messages) -> None:
        before = Tracer.current()
        with tracer.start("db.insert"):
            await asyncio.sleep(0)
        await asyncio.to_thread(tracer.start("in a thread").finish)
        current.append((before, Tracer.current()))

    rig = Rig(insert, asynchronous=True, monitor=monitor)

    async def both() -> None:
        await asyncio.gather(*(rig.run_async(job_of(sender(at), partition=at, lane=at)) for at in (7, 8, 9)))
        current.append((Tracer.current(), None))

    asyncio.run(both())
    assert tracer.flush()
    *jobs, outside = current
    assert len({before for before, _ in jobs}) == 3
    assert all(before is after is not None for before, after in jobs)
    assert outside == (None, None)
    assert sorted(len(trace) for trace in agent.requests[0].traces) == [3, 3, 3]
    for job, *children in agent.requests[0].traces:
        assert {child["parent_id"] for child in children} == {job["span_id"]}


def test_a_job_that_fails_is_an_error(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    def fail(messages: grete.Messages) -> None:
        raise ValueError("out of stock")

    with pytest.raises(ValueError, match="out of stock"):
        run(fail, monitor, job_of([]))
    assert Tracer.current() is None
    assert tracer.flush()
    (span,) = agent.spans
    assert (span["error"], span["meta"]["error.type"], span["meta"]["error.message"]) == (
        1,
        "ValueError",
        "out of stock",
    )
    assert "in fail" in span["meta"]["error.stack"]


def test_a_job_that_asks_for_another_try_is_none(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    def ask(messages: grete.Messages) -> None:
        raise grete.RetryLater("90s")

    with pytest.raises(grete.RetryLater):
        run(ask, monitor, job_of([]))
    assert tracer.flush()
    (span,) = agent.spans
    assert (span["error"], span["metrics"]["grete.retry_later"]) == (0, 90.0)


def by_name(agent: FakeAgent, name: str) -> list[dict[str, Any]]:
    return [span for span in agent.spans if span["name"] == name]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_record_has_a_span_on_request(agent: FakeAgent, monitor: Monitor, asynchronous: bool) -> None:
    tracer = Tracer("orders", agent=agent.url, messages=True)
    monitor.subscribe(tracer)

    def take(message: grete.Message) -> None:
        with tracer.start("db.insert"):
            if message.offset == 6:
                raise ValueError("out of stock")

    async def take_later(message: grete.Message) -> None:
        await asyncio.sleep(0)
        take(message)

    rig = Rig(take_later if asynchronous else take, asynchronous=asynchronous, monitor=monitor)
    job = job_of(sender(7), [("traceparent", b"x")], sender(8))
    go = functools.partial(asyncio.run, rig.run_async(job)) if asynchronous else functools.partial(rig.run, job)
    with pytest.raises(ValueError, match="out of stock"):
        go()
    assert tracer.close()
    (whole,) = by_name(agent, "kafka.consume")
    first, second = by_name(agent, "kafka.process")
    inserts = by_name(agent, "db.insert")
    assert [link["span_id"] for link in whole["span_links"]] == [7, 8]
    assert [first["parent_id"], second["parent_id"]] == [whole["span_id"]] * 2
    assert [insert["parent_id"] for insert in inserts] == [first["span_id"], second["span_id"]]
    assert [span["metrics"]["messaging.kafka.offset"] for span in (first, second)] == [5, 6]
    assert [link["span_id"] for link in first["span_links"]] == [7]
    assert "span_links" not in second
    assert [span["error"] for span in (whole, first, second)] == [1, 0, 1]
    assert len({span["trace_id"] for span in agent.spans}) == 1
    assert tracer.statistics()["broken_headers"] == 1


def test_one_record_is_linked_to_nothing_that_it_is_part_of(agent: FakeAgent, monitor: Monitor) -> None:
    tracer = Tracer("orders", agent=agent.url, messages=True)
    monitor.subscribe(tracer)

    def take(payload: int) -> None:
        assert payload == 101

    run(take, monitor, job_of(sender(7)), payload=int)
    assert tracer.close()
    (whole,), (one,) = by_name(agent, "kafka.consume"), by_name(agent, "kafka.process")
    assert (whole["parent_id"], one["parent_id"]) == (7, whole["span_id"])
    assert "span_links" not in one


def test_records_have_no_events_unless_requested(monitor: Monitor, tracer: Tracer) -> None:
    assert not monitor.event("message.process")
    assert not monitor.event("message.processed")
    monitor.unsubscribe(tracer)
    assert not any(monitor.event(name) for name in monitor)


def test_who_comes_or_goes_while_a_handler_runs_breaks_nothing(agent: FakeAgent, monitor: Monitor) -> None:
    tracer = Tracer("orders", agent=agent.url)
    changes: list[Callable[..., Any]] = [monitor.subscribe, monitor.unsubscribe]

    def change(messages: grete.Messages) -> None:
        if changes:
            changes.pop(0)(tracer)

    # A span without an end stays the current span of its thread.
    contextvars.copy_context().run(run, change, monitor, job_of([]), job_of([]))
    monitor.subscribe(tracer)
    run(change, monitor, job_of([]))
    assert tracer.close()
    # The first job's end has no begun span; the second job's end reaches no listener.
    assert len(agent.spans) == 1


def test_a_forked_node_traces_its_own_jobs(agent: FakeAgent, monitor: Monitor, tracer: Tracer) -> None:
    run(nothing, monitor, job_of([]))
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            run(nothing, monitor, job_of(sender(7)))
            status = 0 if tracer.close(30) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert tracer.close()
    assert sorted(span["parent_id"] for span in agent.spans) == [0, 7]
    assert len({span["metrics"]["process_id"] for span in agent.spans}) == 2


def test_the_end_of_an_app_sends_what_is_there(agent: FakeAgent, monitor: Monitor) -> None:
    tracer = Tracer("orders", agent=agent.url, interval=60)
    monitor.subscribe(tracer)
    run(nothing, monitor, job_of([]))
    monitor.instrument("app.stopped")
    assert len(agent.spans) == 1
    assert tracer.close()


BAD: dict[str, Callable[[FakeAgent], object]] = {
    "stalls": lambda agent: setattr(agent, "reply", agent.stall),
    "drips": lambda agent: setattr(agent, "reply", agent.drip),
    "429": lambda agent: setattr(agent, "reply", lambda request: answer(429)),
    "500": lambda agent: setattr(agent, "reply", lambda request: answer(500)),
    "garbage": lambda agent: setattr(agent, "reply", lambda request: b"\0\xff" * 500),
    "resets": lambda agent: setattr(agent, "reply", lambda request: None),
    "away": lambda agent: agent.close(),
}


@pytest.mark.parametrize("how", BAD)
def test_jobs_go_on_whatever_the_agent_does(monitor: Monitor, how: str) -> None:
    with fake_agent() as agent:
        BAD[how](agent)
        # Nothing is given up within a minute: a call that waited for the agent would be seen.
        timeout = 60.0 if how in ("stalls", "drips") else 2.0
        tracer = Tracer("orders", agent=agent.url, interval=0.01, timeout=timeout, max_spans=100)
        monitor.subscribe(tracer)
        rig = Rig(nothing, monitor=monitor)
        for _ in range(2_000):
            rig.run(job_of([]))
        counters = tracer.statistics()
        assert counters["finished"] == 2_000
        assert counters["waiting"] <= 100
        assert counters["dropped"]["full"] > 0
        tracer.close(0.1)
        eventually(lambda: tracer.statistics()["waiting"] == 0 or how in ("stalls", "drips"), 30)
    eventually(lambda: tracer.statistics()["waiting"] == 0, 30)
    counters = tracer.statistics()
    assert counters["sent"] + sum(counters["dropped"].values()) == 2_000
