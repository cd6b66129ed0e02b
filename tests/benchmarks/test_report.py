"""Rows, targets, tables and plots from made-up runs."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchmarks.common import svg
from benchmarks.common.table import number, table
from benchmarks.consume import targets
from benchmarks.consume.catalogue import CLIENTS
from benchmarks.consume.driver import Measurement, check, records_of
from benchmarks.consume.report import markdown, plot
from benchmarks.consume.rows import Run, rows
from benchmarks.consume.topics import TOPICS, Filled

FACTS = {
    "date": "2026-01-01",
    "machine": {"cpu": "a CPU", "cores": "2", "memory": "1 GiB", "system": "Linux"},
    "broker": {"version": "4.3.0", "settings": "one node"},
    "python": "3.11",
    "cores": {"broker": 0, "client": 1},
}


def run(row: str, seconds: float, cpu_seconds: float, topic: str = "T23") -> Run:
    return Run(topic, row, row, 1_000_000, seconds, cpu_seconds, 10_000_000, "1.0")


def test_a_row_is_the_median_of_its_runs() -> None:
    found = rows([run("a", 1.0, 0.5), run("a", 4.0, 0.1), run("a", 2.0, 0.2)])
    row = found["T23", "a"]
    assert (row.runs, row.per_second, row.slowest, row.fastest) == (3, 500_000, 250_000, 1_000_000)
    assert row.cpu_per_million == pytest.approx(0.2)
    assert row.per_cpu_second == pytest.approx(5e6)


def test_runs_of_other_topics_do_not_mix() -> None:
    found = rows([run("a", 1.0, 0.5), run("a", 1.0, 0.1, topic="T100")])
    assert list(found) == [("T23", "a"), ("T100", "a")]
    assert found["T100", "a"].cpu_per_million == pytest.approx(0.1)


def test_targets_compare_the_right_figures() -> None:
    # Per second of wall Grete is 12 times as fast, per CPU second only 10 times.
    found = rows([run(targets.COLUMNS, 1.0, 0.1), run(targets.CONFLUENT, 12.0, 1.0)])
    results = {result.text: result for result in targets.check_targets(found)}
    wall = results["T23, records per second: grete-columns vs confluent"]
    assert wall.measured == pytest.approx(12.0)
    assert wall.word == "ok"
    cpu = results["T23, records per CPU second: grete-columns vs confluent"]
    assert cpu.measured == pytest.approx(10.0)
    assert cpu.word == "MISSED"
    absent = results["T23, records per CPU second: grete-columns vs librdkafka"]
    assert (absent.measured, absent.word, absent.missed) == (None, "not measured", False)


def test_every_target_names_rows_that_exist() -> None:
    names = set()
    for client in CLIENTS.values():
        names |= {client.name} if len(client.rows) == 1 else {f"{client.name}/{one}" for one in client.rows}
    for target in targets.TARGETS:
        assert {target.subject, target.peer} <= names
        assert target.topic in TOPICS


def test_a_client_that_skips_records_fails() -> None:
    filled = Filled(TOPICS["T23"], 1000, 23_000)
    client = CLIENTS["confluent"]
    check(client, filled, {"records": 1000, "counted": 900, "bytes": 23_000})
    for wrong in ({"records": 999, "bytes": 23_000}, {"records": 1000, "bytes": 22_977}):
        with pytest.raises(Exception, match="read"):
            check(client, filled, {"counted": 900, **wrong})
    with pytest.raises(Exception, match="first batch"):
        check(client, filled, {"records": 1000, "counted": 0, "bytes": 23_000})


@pytest.mark.parametrize(
    ("scale", "at_most", "expected"), [(1.0, None, 10_000_000), (0.5, 3, 1000), (2.0, None, 20_000_000)]
)
def test_sizes_scale(scale: float, at_most: int | None, expected: int) -> None:
    assert records_of(TOPICS["T23"], scale, at_most) == expected


def test_the_page_and_the_plot_show_every_row() -> None:
    measured = Measurement(
        [Filled(TOPICS["T23"], 1_000_000, 23_000_000)],
        [run(targets.COLUMNS, 0.1, 0.05), run("floor-crcparse", 0.05, 0.025), run(targets.CONFLUENT, 1.0, 1.0)],
    )
    page = markdown(FACTS, measured, rounds=3)
    line = next(line for line in page.splitlines() if line.startswith("| confluent"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:6] == ["1,000 (1,000..1,000)", "1.0000", "40.0", "20.0", "100%"]
    drawing = ET.fromstring(plot(FACTS, measured))
    bars = [float(element.attrib["width"]) for element in drawing.iter("{http://www.w3.org/2000/svg}rect")]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] / bars[1] == pytest.approx(2.0, rel=0.01)


def test_labels_cannot_break_the_plot() -> None:
    text = svg.plot("a < b & c", '"quoted"', [svg.Panel("<panel>", [svg.Bar("</svg>", 0.0, "0", "peer")])])
    assert [element.text for element in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")][-2] == "</svg>"


def test_tables_line_up() -> None:
    lines = table(("name", "n"), [("a", "1"), ("longer", "1,000")]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "| ------ | ----: |"


@pytest.mark.parametrize(
    ("value", "text"), [(12_345.6, "12,346"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.01234, "0.0123")]
)
def test_numbers_keep_three_digits(value: float, text: str) -> None:
    assert number(value) == text
