"""Tally, rows, targets and pages of the process benchmark from made-up runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.common.run import ClientFailedError
from benchmarks.common.target_results import TargetResult
from benchmarks.consume.rows import Run
from benchmarks.process import report, transform
from benchmarks.process.calls import check
from benchmarks.process.catalogue import JSON, NOOP, PARTS
from benchmarks.process.clients.record_clock import FIRST, Tally
from benchmarks.process.measurement import Crowd, Idle, Measurement, Stuck, Transform, Waiting, Wakeups, over_windows
from benchmarks.process.stuck import PARTITIONS, result
from benchmarks.process.targets import TARGETS, check_targets
from benchmarks.process.waiting import WAYS
from benchmarks.process.wakeups import SLEEPERS, wakeups
from tests.benchmarks.test_report import FACTS


def run(part: str, row: str, cpu_seconds: float) -> Run:
    return Run(part, row, row, 1_000_000, 1.0, cpu_seconds, 10_000_000, "1.0")


def results(found: Measurement) -> dict[str, TargetResult]:
    return {target_result.text: target_result for target_result in check_targets(found)}


def test_the_clock_of_a_tally_leaves_out_the_first_records(capsys: pytest.CaptureFixture[str]) -> None:
    ended: list[bool] = []
    tally = Tally(100_000, "1.0", lambda: ended.append(True))
    assert tally.first == FIRST
    assert tally.reached(FIRST, b"") == 100_000
    assert not ended
    assert tally.reached(100_000, b"last") == -1
    assert ended == [True]
    got, line = map(json.loads, capsys.readouterr().out.splitlines())
    assert got == {"got": "bytes"}
    assert (line["records"], line["counted"]) == (100_000, 100_000 - FIRST)


def test_a_small_tally_still_counts_most_records() -> None:
    assert Tally(500, "1.0", lambda: None).first == 50


def test_a_client_must_have_given_its_handler_what_it_says() -> None:
    client = NOOP["grete-message"]
    line = {"got": "Message", "records": 1000, "counted": 900}
    check(client, line, 1000)
    for wrong in ({"got": "bytes"}, {"records": 999}, {"counted": 0}):
        with pytest.raises(ClientFailedError):
            check(client, {**line, **wrong}, 1000)
    with pytest.raises(ClientFailedError):
        check(client, {"got": "Message"}, 1000)


def test_slow_peers_read_the_start_only() -> None:
    assert NOOP["quixstreams"].records(5_000_000) == 200_000
    assert NOOP["quixstreams"].records(1000) == 1000
    assert NOOP["grete-message"].records(5_000_000) == 5_000_000


def test_every_target_names_clients_that_exist() -> None:
    clients = {"noop": NOOP, "json": JSON}
    for target in TARGETS:
        assert target.subject in clients[target.part]
        assert target.peer in clients[target.part]
    for part in PARTS.values():
        assert part.base in part.clients


def test_ratios_are_of_records_per_cpu_second() -> None:
    found = Measurement(runs=[run("noop", "grete-message", 0.2), run("noop", "confluent", 0.62)])
    (target_result,) = [v for v in check_targets(found) if v.measured is not None]
    assert target_result.text == "noop, records per CPU second: grete-message vs confluent"
    assert target_result.measured == pytest.approx(3.1)
    assert not target_result.missed
    # What was not run is not asked for, what lacks its peer is not judged.
    assert not any(text.startswith("json") for text in results(found))
    assert results(found)["noop, records per CPU second: grete-message vs quixstreams"].word == "not measured"


def sample(at: float, jobs: int, workers: int, handlers: int) -> dict[str, Any]:
    return {"at": at, "jobs": jobs, "workers": workers, "handlers": handlers, "process": 2 * workers}


def test_the_handlers_own_switches_are_not_its_workers() -> None:
    samples = [sample(0, 0, 0, 0), sample(1, 100, 250, 100), sample(3, 200, 500, 200)]
    row = wakeups(SLEEPERS["sleep-1"], samples)
    assert (row.handler, row.worker, row.process) == (1.0, 1.5, 4.0)
    assert row.jobs_per_second == 75.0
    with pytest.raises(ClientFailedError):
        wakeups(SLEEPERS["sleep-1"], [samples[0], samples[0]])


def stuck_line(stuck: int, slow: float = 1.0) -> dict[str, Any]:
    """Ten records a second and partition; partition 0 stops at `stuck`, partition 7 goes on `slow`."""

    def partitions(seconds: float, hung: bool) -> dict[str, int]:
        records = {str(number): round(10 * seconds) for number in range(PARTITIONS)}
        if hung:
            records["0"] = stuck
            records["7"] = 100 + round((records["7"] - 100) * slow)
        return records

    edges = ((0, False), (10, False), (13, True), (73, True))
    return {
        "samples": [{"at": float(at), "partitions": partitions(at, hung)} for at, hung in edges],
        "hooks": {"initialize": PARTITIONS},
        "logged": [
            {"message": "it is stuck\n  File ...", "partition": "0"},
            {"message": "so is another", "partition": 1},
        ],
        "statistics": ["f on waiting8[1] for 70.0 s", "f on waiting8[0] for 70.0 s"],
    }


def test_the_others_rates_are_compared_one_by_one() -> None:
    row = result(stuck_line(101, slow=0.5), 60.0)
    assert row.before == pytest.approx(70.0)
    assert row.during == pytest.approx(65.0, abs=0.2)
    assert row.worst == pytest.approx(0.5, abs=0.01)
    assert (row.rebalances, row.logged, row.shown) == (0, "it is stuck", "f on waiting8[0] for 70.0 s")
    found = results(Measurement(stuck=[row]))
    assert found["stuck, the worst of them"].word == "MISSED"
    assert found["stuck, named in the log"].word == found["stuck, named in App.statistics()"].word == "ok"


def test_a_rebalance_shows_as_an_instance_too_many() -> None:
    line = stuck_line(101)
    line["hooks"] = {"initialize": PARTITIONS + 2, "revoked": 1}
    line["logged"], line["statistics"] = [], []
    row = result(line, 60.0)
    assert (row.rebalances, row.logged, row.shown) == (3, "", "")
    found = results(Measurement(stuck=[row]))
    assert found["stuck, rebalances"].missed
    assert found["stuck, named in the log"].missed
    assert found["stuck, named in App.statistics()"].missed


def test_a_partition_that_went_on_was_not_stuck() -> None:
    line = stuck_line(101)
    line["samples"][-1]["partitions"]["0"] = 102
    with pytest.raises(ClientFailedError):
        result(line, 60.0)


def transformed(name: str, rate: float, cpu_us: float, lag: float, ahead: int) -> Transform:
    return Transform(name, name, 1, rate, cpu_us, lag, 1e3 * lag / rate, int(lag), ahead, "1.0")


def test_a_lag_is_the_median_of_the_looks() -> None:
    line = {"counted": 1_000_000, "seconds": 2.0, "cpu_seconds": 0.5, "version": "grete 1.0"}
    looks = [transform.Look(10, 110, 210), transform.Look(40_000, 100_000, 60_000), transform.Look(300, 200, 500)]
    row = transform.result(transform.LOOPS["grete-each-8"], line, looks)
    assert (row.partitions, row.per_second, row.cpu_us) == (8, 500_000.0, 0.5)
    assert (row.lag, row.lag_ms, row.worst_lag, row.ahead) == (0, 0.0, 50_000, 100)
    row = transform.result(transform.LOOPS["grete-each-8"], line, looks[1:2])
    assert (row.lag, row.lag_ms, row.ahead) == (50_000, 100.0, 0)
    assert transform.result(transform.LOOPS["confluent-1"], line, []).lag == 0


def test_loops_are_medians_of_their_rounds() -> None:
    runs = [transformed("grete-each-1", rate, 0.5, -3000.0, 9) for rate in (4e5, 6e5, 5e5)]
    found = Measurement(transforms=[*runs, transformed("confluent-1", 2e5, 2.5, 5000.0, 0)])
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.transform_table(found).splitlines()]
    assert cells[2] == ["grete-each-1", "1", "500 (400..600)", "0.500", "0.200", "-3,000", "-6", "-3,000", "9"]
    assert cells[3] == ["confluent-1", "1", "200 (200..200)", "2.500", "1.00", "5,000", "25", "5,000", "0"]
    assert results(found)["transform, grete-each-1: committed before it was written"].missed
    assert not results(found)["transform, confluent-1: committed before it was written"].missed


def test_windows_are_differences() -> None:
    samples = [{"at": 1.0, "records": 5}, {"at": 3.0, "records": 25}, {"at": 4.0, "records": 25}]
    assert over_windows(samples, "records", "at") == [10.0, 0.0]


def test_the_page_shows_all_parts_and_their_targets() -> None:
    found = Measurement(
        runs=[run("noop", "grete-message", 0.1), run("noop", "quixstreams", 9.0), run("json", "grete-payload", 0.3)],
        waiting=[
            Waiting(name, WAYS[name].title, 1, rate, rate, rate, 1.0)
            for name, rate in (("sync-partition-1", 900.0), ("sync-key-1", 7_000.0))
        ],
        wakeups=[Wakeups("sleep-1", "sleeps", 10.0, 1.0, 2.5, 3.0)],
        idle=[Idle("idle", "a class", 4.0, 0.1, 9)],
        crowds=[Crowd(0, 15, 100_000.0, 100_000.0), Crowd(100, 15, 97_000.0, 97_000.0)],
        stuck=[Stuck(60.0, 100.0, 96.0, 0.94, 0, "it is stuck", "")],
        failures=["json, quixstreams: no end"],
    )
    page = report.markdown(FACTS, found, 5_000_000, 3)
    for text in ("## A handler that does nothing", "decoded from JSON", "| 90.0 |", "it is stuck", "no end", "97.0"):
        assert text in page
    missed = {target_result.text for target_result in check_targets(found) if target_result.missed}
    assert len(missed) == 5
    assert json.loads(json.dumps(report.data(FACTS, found)))["background"][1]["threads"] == 100
