"""An agent that is away, slow, overloaded, or none: what is held is bounded, losses are counted, no caller waits."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from grete.instrumentation.datadog import Tracer
from tests.kafka.waiting import eventually
from tests.unit.fake_agent import FakeAgent, Piece, Request, answer, fake_agent


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as agent:
        yield agent


def tracer_for(agent: FakeAgent, **settings: Any) -> Tracer:
    return Tracer("orders", agent=agent.url, **{"interval": 0.01, **settings})


def dropped(tracer: Tracer) -> dict[str, int]:
    return {reason: count for reason, count in tracer.statistics()["dropped"].items() if count}


def test_one_connection_is_kept(agent: FakeAgent) -> None:
    tracer = tracer_for(agent)
    for _ in range(3):
        tracer.start("job").finish()
        assert tracer.flush()
    assert [request.connection for request in agent.requests] == [0, 0, 0]
    agent.reply = lambda request: answer(200, b"{}", "Connection: close")
    for _ in range(2):
        tracer.start("job").finish()
        assert tracer.flush()
    assert [request.connection for request in agent.requests] == [0, 0, 0, 0, 1]
    assert tracer.close()
    assert tracer.statistics()["retried"] == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (answer(429), "busy"),
        (answer(503), "failing"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "garbled"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, "garbled"),
        (None, "away"),
    ],
)
def test_what_may_pass_is_tried_again(agent: FakeAgent, bad: bytes | None, reason: str) -> None:
    tracer = tracer_for(agent)
    answers = iter([bad, bad])
    agent.reply = lambda request: next(answers, answer())
    tracer.start("job").finish()
    assert tracer.flush(30)
    assert (tracer.statistics()["sent"], dropped(tracer)) == (1, {})
    assert len(agent.requests) == 3
    agent.reply = lambda request: bad
    tracer.start("job").finish()
    assert tracer.close(30)
    assert dropped(tracer) == {reason: 1}


@pytest.mark.parametrize(
    ("status", "reason"), [(400, "refused"), (404, "refused"), (302, "refused"), (413, "too_large")]
)
def test_what_will_not_pass_is_dropped_at_once(agent: FakeAgent, status: int, reason: str) -> None:
    tracer = tracer_for(agent)
    agent.reply = lambda request: answer(status)
    tracer.start("job").finish()
    assert tracer.flush()
    assert (len(agent.requests), dropped(tracer)) == (1, {reason: 1})
    assert tracer.close()


def test_an_endless_answer_is_not_asked_for_again(agent: FakeAgent) -> None:
    """An agent that answers so may have taken the spans."""
    tracer = tracer_for(agent)
    agent.reply = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
    tracer.start("job").finish()
    assert tracer.flush(30)
    assert (len(agent.requests), dropped(tracer)) == (1, {"garbled": 1})
    assert tracer.close()


def test_what_is_too_large_goes_in_parts(agent: FakeAgent) -> None:
    tracer = tracer_for(agent, interval=60)
    agent.reply = lambda request: answer(413 if len(request.body) > 100_000 else 200)
    for _ in range(100):
        span = tracer.start("job", parent=None)
        span.set_tag("text", "x" * 10_000)
        span.finish()
    assert tracer.flush()
    assert tracer.statistics()["sent"] == 100
    assert dropped(tracer) == {}
    taken = [request for request in agent.requests if len(request.body) <= 100_000]
    assert sum(len(request.traces) for request in taken) == 100
    assert all(int(request.headers["x-datadog-trace-count"]) == len(request.traces) for request in taken)
    assert tracer.close()


def test_no_thread_waits_for_an_agent_that_does_not_answer(agent: FakeAgent) -> None:
    tracer = tracer_for(agent, timeout=60, max_spans=100)
    asked = threading.Event()

    def stall(request: Request) -> bytes:
        asked.set()
        return agent.stall(request)

    agent.reply = stall
    tracer.start("first").finish()
    assert asked.wait(30)
    for _ in range(10_000):
        tracer.start("job", parent=None).finish()
    counters = tracer.statistics()
    assert (counters["waiting"], dropped(tracer)) == (100, {"full": 9_901})
    assert not tracer.flush(0.05)
    assert not tracer.close(0.05)


def test_memory_is_bounded_while_the_agent_is_away() -> None:
    tracer = Tracer("orders", agent="http://127.0.0.1:1", max_bytes=1024 * 1024)
    for _ in range(5_000):
        span = tracer.start("job", parent=None)
        span.set_tag("text", "x" * 10_000)
        span.finish()
    counters = tracer.statistics()
    assert 900_000 < counters["waiting_bytes"] <= 1024 * 1024
    assert counters["waiting"] + counters["dropped"]["full"] == 5_000
    assert tracer.close(30)
    counters = tracer.statistics()
    assert (counters["waiting"], counters["waiting_bytes"]) == (0, 0)
    assert counters["dropped"]["full"] + counters["dropped"]["away"] == 5_000


@pytest.mark.parametrize("how", ["stall", "drip"])
def test_an_answer_that_takes_too_long_is_cut_off(agent: FakeAgent, how: str) -> None:
    tracer = tracer_for(agent, timeout=0.2)
    agent.reply = getattr(agent, how)
    tracer.start("job").finish()
    eventually(lambda: tracer.statistics()["retried"], 30)
    agent.reply = lambda request: answer()
    assert tracer.flush(30)
    assert tracer.statistics()["sent"] == 1
    agent.reply = getattr(agent, how)
    tracer.start("job").finish()
    assert tracer.close(30)
    assert dropped(tracer) == {"slow": 1}


@pytest.mark.parametrize(("end", "reason"), [(b"", "garbled"), (None, "away")])
def test_an_answer_that_breaks_off_is_none(agent: FakeAgent, end: Piece, reason: str) -> None:
    tracer = tracer_for(agent)
    agent.reply = lambda request: iter([answer()[:20], end])
    tracer.start("job").finish()
    eventually(lambda: tracer.statistics()["retried"], 30)
    assert tracer.close(30)
    assert dropped(tracer) == {reason: 1}


@contextlib.contextmanager
def deaf_agent(every: float | None) -> Iterator[str]:
    """One that takes connections, and reads nothing of what comes, or 16 bytes every so many seconds."""
    over = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while not over.is_set():
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=read, args=(connection,)))
                threads[-1].start()

    def read(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while not over.wait(every):
                connection.recv(16)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [threading.Thread(target=serve)]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


@pytest.mark.parametrize("every", [None, 0.01])
def test_an_agent_that_does_not_read_is_slow(every: float | None) -> None:
    with deaf_agent(every) as url:
        tracer = Tracer("orders", agent=url, interval=0.01, timeout=0.2)
        for _ in range(400):
            span = tracer.start("job", parent=None)
            span.set_tag("text", "x" * 20_000)  # more than sockets hold
            span.finish()
        eventually(lambda: tracer.statistics()["retried"], 30)
        assert tracer.close(30)
        assert dropped(tracer) == {"slow": 400}


def test_a_flush_does_not_wait_for_the_end_of_a_pause(agent: FakeAgent) -> None:
    tracer = tracer_for(agent)
    agent.reply = lambda request: answer(503)
    tracer.start("job").finish()
    eventually(lambda: tracer.statistics()["retried"] == 3, 30)
    agent.reply = lambda request: answer()
    assert tracer.flush(30)
    assert tracer.statistics()["sent"] == 1
    assert tracer.close()


def test_after_the_end_spans_are_dropped_and_counted(agent: FakeAgent) -> None:
    tracer = tracer_for(agent)
    assert tracer.close()
    tracer.start("late").finish()
    assert dropped(tracer) == {"closed": 1}
    assert tracer.close()
    assert tracer.flush()
    with pytest.raises(ValueError, match="timeout"):
        tracer.flush(-1)


def test_a_tracer_that_is_let_go_sends_what_it_has(agent: FakeAgent) -> None:
    tracer = tracer_for(agent, interval=60)
    tracer.start("job").finish()
    del tracer
    eventually(lambda: [span["name"] for span in agent.spans] == ["job"], 30)


def test_a_child_sends_its_own_spans_and_none_of_its_parents(agent: FakeAgent) -> None:
    tracer = tracer_for(agent, interval=60)
    tracer.start("warm").finish()
    assert tracer.flush()
    tracer.start("parents").finish()
    with tracer.start("open") as span:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                span.set_tag("from", "the child")
                span.finish()
                with tracer.start("childs"):
                    pass
                counters = tracer.statistics()
                status = 0 if tracer.close(30) and (counters["started"], counters["waiting"]) == (1, 1) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert tracer.close()
    by_name = {span["name"]: span for span in agent.spans}
    assert sorted(span["name"] for span in agent.spans) == ["childs", "open", "parents", "warm"]
    assert by_name["childs"]["parent_id"] == by_name["open"]["span_id"]
    assert by_name["childs"]["trace_id"] == by_name["open"]["trace_id"]
    assert "from" not in by_name["open"]["meta"]
    assert by_name["childs"]["metrics"]["process_id"] != by_name["open"]["metrics"]["process_id"]


def test_forks_while_spans_fly(agent: FakeAgent) -> None:
    """Children are forked while threads finish spans and the sender sends: none of them hangs, none sends twice."""
    tracer = tracer_for(agent)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            tracer.start("parents", parent=None).finish()
            time.sleep(0)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            try:
                tracer.start("childs", parent=None).finish()
                os._exit(0 if tracer.close(30) else 2)
            finally:
                os._exit(1)
        children.append(pid)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    stop.set()
    for thread in threads:
        thread.join()
    assert tracer.close(30)
    assert statuses == [0] * 20
    ids = [span["span_id"] for span in agent.spans]
    assert len(ids) == len(set(ids))
    assert [span["name"] for span in agent.spans].count("childs") == 20
