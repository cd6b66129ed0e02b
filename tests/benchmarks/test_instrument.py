"""Rounds, silenced sources, targets and pages of the benchmark of events."""

from __future__ import annotations

import ast
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.common.instructions import Instructions
from benchmarks.common.paired import Interval
from benchmarks.common.target_results import TargetResult
from benchmarks.instrument import allocations, harness, jobs, report, scrapes
from benchmarks.instrument.calls import guard, nothing
from benchmarks.instrument.hooks_without_events import both, mentions, silenced
from benchmarks.instrument.measurement import Allocated, Call, Cost, Measurement, Pair
from benchmarks.instrument.shapes import SHAPES
from benchmarks.instrument.targets import check_targets
from grete._processing.engine import hook_runner
from grete.instrumentation import Monitor
from tests.benchmarks.test_report import FACTS

HERE = FACTS | {"peers": {"blinker": "1.9"}}
CALLS = {"guard": 5.0, "measure": 80.0, "measure-heard": 500.0, "blinker": 110.0, "realtime": 36.0, "datetime": 280.0}


def pair(name: str, *ratios: float, instructions: float | None = 1.001) -> Pair:
    without = Cost(2.0, 2.5, None if instructions is None else 20_000.0)
    counted = None if instructions is None else 20_000.0 * instructions
    rounds = tuple((without, Cost(2.0 * ratio, 2.5 * ratio, counted)) for ratio in ratios)
    return Pair(name, f"{name}, 1 record", 1, rounds)


def complete() -> Measurement:
    found = Measurement()
    found.calls = [Call(name, name, (cost, cost - 1, cost + 1)) for name, cost in CALLS.items()]
    found.allocated = [Allocated("guard", True, 1_000_000, 0, 0, 0), Allocated("heard", False, 1000, 5000, 5000, 4)]
    found.jobs = [pair("empty", 0.99, 1.002, 1.2), pair("async", 1.0, instructions=None)]
    found.listeners = [pair("tracer", 2.0, 3.0, 2.5)]
    found.scrapes = [Call("scrape-8", "as text, 8 partitions", (14_000.0, 15_000.0))]
    return found


def change_call(name: str, cost: float) -> Measurement:
    found = complete()
    found.calls = [replace(call, nanoseconds=(cost,)) if call.name == name else call for call in found.calls]
    return found


def missed(found: Measurement) -> list[TargetResult]:
    return [result for result in check_targets(found) if result.missed]


def test_a_run_that_reaches_all_has_no_miss() -> None:
    assert len(check_targets(complete())) == 9
    assert missed(complete()) == []


@pytest.mark.parametrize(
    ("name", "cost"), [("guard", 25.1), ("measure-heard", 199.0), ("blinker", 80.0), ("realtime", 83.0)]
)
def test_each_target_of_a_call_can_be_missed(name: str, cost: float) -> None:
    (result,) = missed(change_call(name, cost))
    assert result.word == "MISSED"


@pytest.mark.parametrize(
    ("left", "peak", "blocks", "unit"), [(1, 1, 0, "bytes"), (0, 1, 0, "bytes"), (0, 0, 1, "blocks")]
)
def test_an_allocation_is_a_miss(left: int, peak: int, blocks: int, unit: str) -> None:
    found = complete()
    found.allocated[0] = replace(found.allocated[0], left=left, peak=peak, blocks=blocks)
    assert [result.text.rpartition(" ")[2] for result in missed(found)] == [unit]


def test_a_job_that_pays_a_per_cent_is_a_miss() -> None:
    found = complete()
    found.jobs = [pair("empty", 1.005, 1.01, 1.02, instructions=1.01)]
    assert [result.text.partition(":")[0] for result in missed(found)] == [
        "calls without a listener, % of time",
        "calls without a listener, % of instructions",
    ]


def test_the_page_and_the_data_have_all_parts() -> None:
    found = complete()
    page = report.markdown(HERE, found)
    for title in ("Single calls", "Jobs without a listener", "Jobs with a listener", "Targets"):
        assert f"## {title}\n" in page
    assert "blinker 1.9" in page
    assert "3,750 (2,500..5,000)" in page  # 2.5 us of the process more by half again, once, twice
    again = json.loads(json.dumps(report.data(HERE, found)))
    assert [target["outcome"] for target in again["targets"]] == ["ok"] * 9
    assert [pair["rounds"] for pair in again["jobs"]] == [3, 1]
    assert again["listeners"][0]["more_ns_of_all_threads"]["middle"] == pytest.approx(3750)


def test_a_part_alone_is_judged_alone() -> None:
    found = Measurement(jobs=complete().jobs)
    assert all("without a listener" in result.text for result in check_targets(found))
    assert "Single calls" not in report.markdown(HERE, found)


def test_processes_come_together() -> None:
    found, line = Measurement(), json.loads(json.dumps(asdict(complete())))
    found.add(line)
    assert asdict(found) == asdict(complete())
    found.add(asdict(Measurement(jobs=[pair("empty", 1.5)])))
    assert [len(each.rounds) for each in found.jobs] == [4, 1]


def test_an_interval_holds_the_middle_and_no_outlier() -> None:
    values = [*range(1, 100), 10_000]
    assert Interval.of(values) == Interval(50.5, 41, 60)
    assert Interval.of([3.0]) == Interval(3.0, 3.0, 3.0)
    assert str(Interval(1.0, 0.5, 2.0)) == "1.00 (0.50..2.00)"


def test_no_event_is_left_in_the_silenced_source() -> None:
    source = Path(hook_runner.__file__).read_text()
    assert set(mentions(ast.parse(source))) == {"JobEvents", "_job_events"}
    tree = silenced(source)
    assert not set(mentions(tree))
    assert "await consume_plain(instance, job)" in ast.unparse(tree)
    assert "self._tear_down(job)" in ast.unparse(tree)
    with pytest.raises(AssertionError, match="_job_events"):
        silenced("def f(self):\n    return self._job_events.job()")


@pytest.mark.parametrize("first", [True, False])
def test_both_ways_are_made_of_the_same_source(first: bool) -> None:
    made = both(first)
    assert next(iter(made)) is first
    assert vars(made[False]).keys() == vars(hook_runner.HookRunner).keys()
    assert made[False]._consume.__code__.co_code == hook_runner.HookRunner._consume.__code__.co_code
    assert made[True]._consume.__code__.co_code != hook_runner.HookRunner._consume.__code__.co_code


@pytest.mark.parametrize("name", SHAPES)
def test_jobs_run_in_both_ways_and_only_one_of_them_emits(name: str) -> None:
    shape, monitor, heard, settled = SHAPES[name], Monitor(), list[int](), list[int]()
    monitor.subscribe("job.finished", lambda occurred: heard.append(occurred["records"]))
    measured = harness.run(shape, 20, monitor, settle=lambda: settled.append(len(heard)))
    assert set(heard) == {shape.records}
    assert settled[1] - settled[0] == 20  # what is measured: the last event is emitted after the clock is read
    count = len(heard)
    silent = harness.run(shape, 20, monitor, silent=True)
    assert len(heard) == count
    assert silent.thread > 0
    assert measured.process > 0


@pytest.mark.parametrize("name", ["empty", "async"])
def test_a_handler_that_fails_ends_the_benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(harness.Clock, "reached", fail)
    with pytest.raises(KeyboardInterrupt):
        harness.run(SHAPES[name], 20, Monitor())


def test_pairs_have_both_and_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[bool]()

    def run(*_: object, silent: bool) -> Cost:
        asked.append(silent)
        return Cost(1.0 if silent else 3.0, 1.0, None)

    monkeypatch.setattr(jobs, "run", run)
    found = jobs.pair(SHAPES["empty"], 2)
    assert asked == [False, True, True, False]
    assert found.slower == Interval(200.0, 200.0, 200.0)
    assert found.longer is None


def test_instructions_are_counted_or_not_at_all() -> None:
    counter = Instructions()
    first = counter.read()
    nothing()
    second = counter.read()
    counter.close()
    assert counter.read() is None
    assert not counter
    if first is None:
        assert second is None
    else:
        assert second is not None
        assert first < second


def test_what_is_allocated_is_seen() -> None:
    monitor, kept = Monitor(), list[object]()

    def keeps(times: int) -> None:
        kept.extend(object() for _ in range(times))

    def forgets(times: int) -> None:
        for _ in range(times):
            bytes(10_000)

    quiet = allocations.allocated("guard", guard(monitor.event("app.running")), 1000)
    # Of a thousand calls; other threads of the tests' process may have a few.
    assert max(quiet.left, quiet.peak, quiet.blocks) < 500
    assert allocations.allocated("keeps", keeps, 1000).blocks > 900
    forgotten = allocations.allocated("forgets", forgets, 1000)
    assert forgotten.left < 10_000 < forgotten.peak


def test_a_scrape_reports_all_lanes() -> None:
    found = scrapes.measure(2, (3,))
    assert [call.name for call in found] == ["scrape-3", "emit-3", "post-3", "gather-3"]
    assert all(len(call.nanoseconds) == 2 for call in found)
