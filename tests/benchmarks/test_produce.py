"""Rows, targets and pages of the produce benchmark from made-up runs."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.broker import Broker, Tls
from benchmarks.common.run import ClientFailedError
from benchmarks.common.target_results import TargetResult
from benchmarks.produce import report
from benchmarks.produce.catalogue import SHAPES, SYNC, THROUGHPUT
from benchmarks.produce.driver import Measurement, check, rotated
from benchmarks.produce.meters import SyncMeter, ThroughputMeter
from benchmarks.produce.rows import SyncRun, ThroughputRun, Waited, percentile, sync_rows, throughput_rows
from tests.benchmarks.test_report import FACTS
from tests.kafka.admin import TopicAdmin

PLAIN = Broker("host:1", "4.3.0", "", TopicAdmin("host:1"))


def sync_line(latencies_us: list[int], **more: Any) -> dict[str, Any]:
    return {
        "pass": "only",
        "sent": len(latencies_us),
        "latencies_ns": [1000 * latency for latency in latencies_us],
        "cpu_seconds": len(latencies_us) * 20e-6,
        "caller_switches": len(latencies_us),
        "process_switches": 2 * len(latencies_us),
        "peak_rss": 10_000_000,
        "version": "1.0",
        **more,
    }


def sync(row: str, *latencies_us: int, **more: Any) -> SyncRun:
    return SyncRun.read(row, row, sync_line(list(latencies_us), **more))


def throughput(row: str, cpu_seconds: float, shape: str = "one", seconds: float = 1.0) -> ThroughputRun:
    return ThroughputRun(shape, row, row, "1.0", 1_000_000, seconds, cpu_seconds, 10_000_000)


def results(measured: Measurement) -> dict[str, TargetResult]:
    return {result.text: result for result in report.check_targets(measured)}


def test_percentiles_are_values_that_occurred() -> None:
    values = [1000 * number for number in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50.0, 99.0, 100.0)
    assert percentile([7000], 0.99) == 7.0


def test_a_sync_row_is_the_median_of_its_runs_and_the_worst_of_all() -> None:
    runs = [sync("a", 100, 100, 900), sync("a", 300, 300, 400), sync("a", 200, 200, 500)]
    row = sync_rows(runs)["a"]
    assert (row.runs, row.records, row.p50_us, row.max_us) == (3, 3, 200.0, 900.0)
    assert row.mean_us == pytest.approx(1000 / 3)
    assert row.cpu_us == pytest.approx(20.0)
    assert (row.caller_switches, row.process_switches) == (1.0, 2.0)
    assert row.handover_p50_us is None


def test_a_client_without_a_thread_of_its_own_has_no_switches_of_the_caller() -> None:
    row = sync_rows([sync("franz", 100, caller_switches=None)])["franz"]
    assert row.caller_switches is None
    assert "| franz" in report.sync_table({"franz": row})


def test_sync_targets_compare_the_right_figures() -> None:
    measured = Measurement(
        sync=[
            sync("floor", 100),
            sync("grete", 130, handovers_ns=[15_000, 25_000, 10_000]),
            sync("confluent-flush", 131),
            sync("grete-sleep", 130 * 15),
        ]
    )
    found = results(measured)
    floor = found["sync, p50: produce_sync over the floor"]
    assert floor.measured == pytest.approx(1.3)
    assert floor.word == "MISSED"
    flush = found["sync, p50: produce_sync over confluent-kafka's produce + flush"]
    assert flush.measured == pytest.approx(130 / 131)
    assert flush.word == "ok"
    handover = found["sync, answer read to caller runs, p50 in us"]
    assert (handover.measured, handover.word) == (15.0, "ok")
    slept = found["sync, mean: sleeping 100 ms until it is done over produce_sync"]
    assert slept.measured == pytest.approx(15.0)
    assert slept.word == "MISSED"


def test_as_fast_as_flush_is_not_faster() -> None:
    measured = Measurement(sync=[sync("grete", 100), sync("confluent-flush", 100)])
    assert results(measured)["sync, p50: produce_sync over confluent-kafka's produce + flush"].missed


def test_throughput_targets_are_per_cpu_second_and_shape() -> None:
    measured = Measurement(
        throughput=[
            # Per second of wall it is as fast as the peer; only its CPU time counts.
            throughput("grete-one", 0.25),
            throughput("grete-many", 0.1),
            throughput("confluent", 1.0),
            throughput("confluent", 0.3, shape="eight"),
            throughput("grete-one", 0.25, shape="eight"),
        ]
    )
    found = results(measured)
    one = found["one, records per CPU second: produce one by one over confluent-kafka's produce"]
    assert one.measured == pytest.approx(4.0)
    assert one.word == "ok"
    eight = found["eight, records per CPU second: produce one by one over confluent-kafka's produce"]
    assert eight.measured == pytest.approx(1.2)
    assert eight.word == "MISSED"
    absent = found["eight, records per CPU second: produce_many over confluent-kafka's produce"]
    assert (absent.measured, absent.word, absent.missed) == (None, "not measured", False)


def test_waiting_may_cost_a_handful_of_switches() -> None:
    for switches, word in ((5, "ok"), (6, "MISSED")):
        measured = Measurement(waited=[Waited("grete", "Grete", 5.0, switches, 3, 0.1)])
        (result,) = report.check_targets(measured)
        assert result.word == word


def test_parts_that_were_not_run_have_no_results() -> None:
    assert report.check_targets(Measurement()) == []


def test_a_client_that_loses_or_repeats_records_fails() -> None:
    lines = [{"sent": 1200}, {"sent": 1200}]
    check(lines, 2400)
    for end in (2399, 2401):
        with pytest.raises(ClientFailedError, match="sent 2,400 records"):
            check(lines, end)


def test_every_round_begins_with_another_client() -> None:
    clients = list(SYNC.values())[:3]
    names = [[client.name for client in rotated(clients, number)] for number in (1, 2, 3, 4)]
    assert names[0] == names[3] == [client.name for client in clients]
    assert sorted(order[0] for order in names[:3]) == sorted(names[0])
    assert all(sorted(order) == sorted(names[0]) for order in names)
    assert rotated([], 2) == []


def test_a_throughput_row_is_the_median_of_its_runs() -> None:
    runs = [throughput("a", 0.5, seconds=1.0), throughput("a", 0.1, seconds=4.0), throughput("a", 0.2, seconds=2.0)]
    row = throughput_rows(runs)["one", "a"]
    assert (row.runs, row.per_second, row.slowest, row.fastest) == (3, 500_000, 250_000, 1_000_000)
    assert row.cpu_per_million == pytest.approx(0.2)


def test_limits_cut_the_records_of_slow_clients_only() -> None:
    limited = THROUGHPUT["aiokafka"].command(PLAIN, "t", 1, 2_000_000)
    assert limited[3:8] == ["host:1", "t", "1", "200", "300000"]
    assert THROUGHPUT["aiokafka"].command(PLAIN, "t", 1, 1000)[7] == "1000"
    assert THROUGHPUT["confluent"].command(PLAIN, "t", 8, 2_000_000)[5:8] == ["8", "200", "2000000"]


def test_over_tls_a_client_gets_the_other_address_and_the_authority() -> None:
    over_tls = dataclasses.replace(PLAIN, tls=Tls("localhost:2", Path("ca.pem")))
    assert SYNC["grete"].command(over_tls, "t", 1, 10)[3:] == [
        *("localhost:2", "t", "1", "200", "10", "100", "acks=all", "enable.idempotence=true", "linger.ms=0"),
        *("mode=sync", "security.protocol=SSL", "ssl.ca.location=ca.pem"),
    ]
    assert {name for name, client in SYNC.items() if client.over_tls} == {
        *("floor", "grete", "confluent-flush", "confluent-poll", "java"),
    }


def test_the_page_and_the_plot_show_every_row() -> None:
    measured = Measurement(
        sync=[sync(name, 100) for name in SYNC],
        throughput=[throughput(name, 0.5, shape) for name in THROUGHPUT for shape in SHAPES],
        waited=[Waited("grete", "waiting Grete", 5.0, 0, 3, 0.0)],
        failures=["java, one: no memory"],
    )
    page = report.markdown(FACTS, measured, 5, 2_000_000)
    for name in SYNC:
        assert page.count(f"| {name} ") == 1 + 2 * (name in THROUGHPUT)
    assert "waiting Grete" in page
    assert "java, one: no memory" in page
    assert "1.0; acks=all, enable.idempotence=true, linger.ms=0" in page
    drawing = report.plot(FACTS, measured)
    ET.fromstring(drawing)
    assert "grete-many" in drawing
    assert "grete-sleep" not in drawing  # its bar would dwarf all others
    json.dumps(report.data(FACTS, measured))


def test_the_sync_meter_counts_what_comes_after_the_warm_up(capsys: pytest.CaptureFixture[str]) -> None:
    meter = SyncMeter()
    calls = []

    def send() -> None:
        calls.append(1)
        meter.handovers_ns.append(len(calls))

    meter.measure(send, warm_up=3, records=5)
    meter.report("1.0")
    line = json.loads(capsys.readouterr().out)
    assert len(calls) == line["sent"] == 8
    assert len(line["latencies_ns"]) == 5
    assert line["handovers_ns"] == [4, 5, 6, 7, 8]
    assert line["caller_switches"] <= line["process_switches"]


def test_the_throughput_meter_does_not_count_the_warm_up(capsys: pytest.CaptureFixture[str]) -> None:
    ThroughputMeter().report(100, 7, "1.0")
    line = json.loads(capsys.readouterr().out)
    assert (line["sent"], line["counted"]) == (107, 100)
    assert line["seconds"] > 0
