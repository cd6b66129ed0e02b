"""What is sent, counted and judged by the trace benchmark, from made-up figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from benchmarks.common.build import ROOT, plain_c
from benchmarks.common.run import ClientFailedError
from benchmarks.common.target_results import TargetResult
from benchmarks.trace import report
from benchmarks.trace.catalogue import AGENTS, SIZES
from benchmarks.trace.clients.rounds import Client, counted, timed
from benchmarks.trace.clients.shape import TAGS
from benchmarks.trace.jobs import row, traced
from benchmarks.trace.measurement import Measurement, Sent, Traced, Written
from benchmarks.trace.sending import wrong
from benchmarks.trace.sink import last_spans, sink, spans_of
from benchmarks.trace.targets import check_targets
from tests.benchmarks.test_report import FACTS

NO_BROKER = {name: fact for name, fact in FACTS.items() if name != "broker"} | {"rounds": 3}
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def sent(name: str, spans: int, seconds: float, size: float) -> Sent:
    return Sent(name, name, f"{name} 1", spans, (seconds, 9.0, seconds / 2), (seconds,) * 3, 5.0, size)


def beside(agent: str, per_second: float, rss: int, sent: int = 90) -> Traced:
    rates = (per_second, 1.0, 9e9)
    return Traced(agent, AGENTS[agent][0], "empty", rates, (3.0, 4.0, 5.0), rss, 100, sent, 4, 400, {"full": 6})


def complete() -> Measurement:
    found = Measurement()
    for spans in SIZES:
        found.sent += [sent("grete", spans, 1e-5, 89), sent("ddtrace", spans, 3e-4, 2e4)]
        found.sent += [sent("ddtrace-v0.4", spans, 1.1e-4, 3e4), sent("naive", spans, 1e-6, 10)]
    writers = {"grete": 0.6, "ddtrace": 7.0, "otel": 20.0}
    found.written = [Written(name, name, f"{name} 1", (time, 9.0, 0.0), (time,) * 3) for name, time in writers.items()]
    found.jobs = [
        beside("none", 1000.0, 20_000_000),
        beside("well", 800.0, 50_000_000),
        beside("slow", 790.0, 60_000_000),
    ]
    return found


def missed(found: Measurement) -> list[TargetResult]:
    return [result for result in check_targets(found) if result.missed]


def test_a_run_that_reaches_all_has_no_miss() -> None:
    assert len(check_targets(complete())) == 2 * len(SIZES) + 2 + 4
    assert missed(complete()) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        # 1,000 spans: the faster one of both counts.
        (lambda found: found.sent.__setitem__(-2, sent("ddtrace-v0.4", 1000, 9e-5, 3e4)), "send, 1,000 spans: calls/s"),
        (lambda found: found.sent.__setitem__(0, sent("grete", 1, 1e-4, 89)), "send, 1 spans: calls/s"),
        (lambda found: found.sent.__setitem__(4, sent("grete", 10, 1e-5, 2e4)), "send, 10 spans: bytes"),
        (
            lambda found: found.written.__setitem__(1, replace(found.written[1], microseconds=(5.0,))),
            "child: over ddtrace",
        ),
        (
            lambda found: found.jobs.__setitem__(2, beside("slow", 700.0, 50_000_000)),
            "jobs, empty: agent",
        ),
        (lambda found: found.jobs.__setitem__(2, replace(found.jobs[2], microseconds=(4.5,))), "jobs, empty: agent"),
        (lambda found: found.jobs.__setitem__(2, beside("slow", 800.0, 90_000_000)), "jobs, empty: memory"),
        (
            lambda found: found.jobs.__setitem__(1, beside("well", 800.0, 50_000_000, 89)),
            "jobs, empty: spans",
        ),
    ],
)
def test_each_target_can_be_missed(change: Any, text: str) -> None:
    found = complete()
    change(found)
    (result,) = missed(found)
    assert result.text.startswith(text)


def test_the_page_and_the_data_have_all_parts() -> None:
    found = complete()
    found.failed("jobs, away", ClientFailedError("gone"))
    page = report.markdown(NO_BROKER, found)
    for title in ("Encode and send", "A child span", "Jobs whose agent does not take it: handler empty", "Targets"):
        assert f"## {title}\n" in page
    assert "## Failed" in page
    assert "no broker; Python 3.11" in page
    assert "full 6" in page
    again = json.loads(json.dumps(report.data(NO_BROKER, found)))
    assert {target["outcome"] for target in again["targets"]} == {"ok"}


def test_a_part_alone_is_judged_alone() -> None:
    found = Measurement(written=complete().written)
    assert [result.text.partition(":")[0] for result in check_targets(found)] == ["child", "child"]
    assert "Encode" not in report.markdown(NO_BROKER, found)
    # Without Grete's own row, nothing is known.
    assert {result.word for result in check_targets(Measurement(written=found.written[1:]))} == {"not measured"}


def trace(size: int) -> list[dict[str, Any]]:
    root = {"name": "root", "span_id": 1, "meta": dict(TAGS)}
    return [root, *({"name": "x", "span_id": at, "parent_id": 1, "meta": dict(TAGS)} for at in range(2, size + 1))]


def test_what_was_sent_is_looked_at() -> None:
    assert wrong(trace(1), 1) == wrong(trace(10), 10) == ""
    assert wrong(trace(9), 10) == "9 spans instead of 10"
    assert wrong([*trace(9), trace(9)[8]], 10) == "10 spans instead of 10"
    bare = trace(10)
    del bare[4]["meta"]["order.state"]
    assert wrong(bare, 10) == "x has not all tags"
    stray = trace(10)
    stray[4]["parent_id"] = 2
    assert "parent" in wrong(stray, 10)


def test_both_formats_of_an_agent_are_read() -> None:
    span = {
        "service": "orders",
        "name": "x",
        "resource": "r",
        "trace_id": 7,
        "span_id": 8,
        "parent_id": 0,
        "meta": {"a": "b"},
    }
    assert spans_of(msgpack.packb([[span]])) == [span]
    words = ["", "orders", "x", "r", "a", "b"]
    array = [1, 2, 3, 7, 8, 0, 100, 5, 0, {4: 5}, {}, 0]
    assert spans_of(msgpack.packb([words, [[array]]])) == [span]


def test_only_what_sends_is_timed() -> None:
    made: list[int] = []
    found = timed(Client("x 1", lambda size: made.append(size), lambda _: None), 7, 1e-3)
    assert set(made) == {7}
    assert found["calls"] == len(made) >= 1
    assert found["seconds"] > 0


def test_what_looking_allocates_is_taken_off() -> None:
    allocated = [0, 0]

    def read() -> tuple[int, int]:
        allocated[0] += 3
        allocated[1] += 100
        return allocated[0], allocated[1]

    def send(_: object) -> None:
        allocated[0] += 2
        allocated[1] += 64

    found = counted(Client("x 1", lambda _: None, send), 1, read)
    assert found == {"objects": 2, "bytes": 64}


@needs_cc
def test_the_sink_behaves_as_configured() -> None:
    body = msgpack.packb([trace(3)])

    def put(url: str) -> int:
        request = urllib.request.Request(f"{url}/v0.4/traces", body, method="PUT")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert b"rate_by_service" in answer.read()
            return int(answer.status)

    with sink("keep", 0) as url:
        assert put(url) == 200
        assert last_spans(url) == trace(3)
    with sink("429", 0) as url:
        with pytest.raises(urllib.error.HTTPError, match="429") as raised:
            put(url)
        raised.value.close()
    with sink("garbage", 0) as url, pytest.raises(Exception, match="SSH"):
        put(url)
    with sink("away", 0) as url, pytest.raises(urllib.error.URLError, match="refused"):
        put(url)


@needs_cc
def test_allocations_are_counted_in_all_threads() -> None:
    code = """if True:
        import ctypes, threading
        from benchmarks.trace.clients.rounds import counter_of_allocations
        read = counter_of_allocations()
        thread = threading.Thread(target=lambda: ctypes.CDLL(None).malloc(1 << 20))
        before = read()
        thread.start(); thread.join()
        after = read()
        print(after[0] > before[0], after[1] - before[1] >= 1 << 20)
    """
    library = plain_c("allocations.c", "-shared", "-fPIC")
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc"}
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.split() == ["True", "True"]


def test_jobs_without_spans_are_noticed() -> None:
    assert traced([{"jobs": 10, "finished": 12}, {"jobs": 5, "finished": 18}])
    assert not traced([{"jobs": 10, "finished": 12}, {"jobs": 5, "finished": 12}])


def test_rounds_become_a_row() -> None:
    line = {
        "jobs": 100, "seconds": 2.0, "cpu_seconds": 0.003, "peak_rss": 7, "finished": 3, "sent": 1, "waiting": 1,
        "waiting_bytes": 9, "dropped": {"full": 1},
    }  # fmt: skip
    found = row("slow", "empty", [line, {**line, "jobs": 300, "peak_rss": 5}])
    assert (found.typical, found.rss, found.unaccounted) == (100.0, 7, 0)
    assert found.cpu == 20.0
