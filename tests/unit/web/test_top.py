"""Frames of `grete top`, from simulated reports."""

from __future__ import annotations

import rich.console
from hypothesis import given
from hypothesis import strategies as st

from grete._cli.terminal.table import Table
from grete._cli.top.frame import Look, Part, make_frame
from grete._cli.top.trends import BLOCKS, PLAIN, SAMPLES, STEP, Trends, sparkline
from grete._web.state.store import Store
from tests.unit.web.simulated_reports import facts, lane, report

NOW = 1_000_000_000


def shown(parts: list[Part]) -> str:
    return "\n".join(map(str, parts))


def stored(*reports: bytes, at: int = NOW) -> Store:
    store = Store()
    for one in reports:
        store.add_report(b"key", one, at, at)
    return store


def test_a_frame_has_apps_processes_jobs_and_the_worst_partition_first() -> None:
    lanes = [lane(0), lane(1, lag=40, state="running", running=2_000), lane(2, lag=900, stalled=1, running=61_000)]
    jobs = [["charge", "orders", 1, 2_000, 1_000], ["charge", "orders", 2, 61_000, None]]
    totals = [10, 100, 7, 5, 3, 0, 0, 0, 0, 0]
    store = stored(report(lanes=lanes, totals=totals, jobs=jobs))
    text = shown(make_frame(store.fleet, Trends(), NOW))
    assert "1 process  0 records/s  lag 940  1 of 5 workers busy" in text
    (app,) = [line.split() for line in text.splitlines() if line.startswith("shop  ")][:1]
    assert app == ["shop", "1", "3", "0", "940", "5", "7", "3"]
    rows = [line.split()[:4] for line in text.splitlines() if "orders[" in line]
    assert [row[:3] for row in rows[:2]] == [["charge", "orders[2]", "1m01s"], ["charge", "orders[1]", "2.0s"]]
    assert [row[1] for row in rows[2:]] == ["orders[2]", "orders[1]", "orders[0]"]
    assert "charge has run for 61 s" in text
    assert "up to date" in text


def test_a_process_that_reports_no_more_is_dead_and_a_stopped_one_is_gone() -> None:
    store = stored(report("shop/host-1/7-a"), report("shop/host-2/8-b", state="stopped"))
    text = shown(make_frame(store.fleet, Trends(), NOW + 60_000))
    assert "0 processes, 1 dead" in text
    assert "! shop host-1:7: no report for 60 s" in text
    assert "host-2" not in text


def test_other_apps_are_left_out_and_the_cure_is_named() -> None:
    store = stored(report("shop/host-1/7-a"), report("bill/host-1/8-b"))
    text = shown(make_frame(store.fleet, Trends(), NOW, app="bill"))
    assert "bill host-1:8" in text
    assert "shop host-1:7" not in text
    assert 'no process of an App "nobody" reports: set web_reports="3s"' in shown(
        make_frame(store.fleet, Trends(), NOW, app="nobody")
    )


def test_names_command_no_terminal() -> None:
    hostile = "\x1b[2J[red]x\n"
    process = facts() | {"app": hostile, "host": hostile}
    store = stored(report(process=process, lanes=[lane(topic=hostile)], problems=[[hostile, hostile]]))
    console = rich.console.Console(width=200, force_terminal=True, color_system=None)
    from grete._cli.top.command import _draw

    with console.capture() as drawn:
        console.print(_draw(make_frame(store.fleet, Trends(), NOW, problem=hostile)))
    assert "\x1b" not in drawn.get()
    assert "\\x1b[2J[red]x" in drawn.get()


@given(rows=st.integers(1, 80), processes=st.integers(0, 12), lanes=st.integers(0, 12))
def test_a_frame_fits_a_terminal_of_usual_height_and_counts_what_it_leaves_out(
    rows: int, processes: int, lanes: int
) -> None:
    own = [lane(number, lag=number) for number in range(lanes)]
    jobs = [["charge", "orders", 0, 1, None]]
    store = stored(*(report(f"shop/host-1/{number}-a", lanes=own, jobs=jobs) for number in range(processes)))
    parts = make_frame(store.fleet, Trends(), NOW, look=Look(rows))
    # The drawn table has a rule below its headings.
    height = sum(2 + len(one.rows) if isinstance(one, Table) else 1 for one in parts)
    assert height <= max(rows, 28)
    tables = [one for one in parts if isinstance(one, Table)]
    left_out = [one for one in parts if isinstance(one, str) and one.startswith("and ")]
    counted = sum(int(one.split()[1].replace(",", "")) for one in left_out)
    if processes:
        assert sum(len(one.rows) for one in tables) + counted == 1 + processes + processes + processes * lanes


def test_samples_follow_the_time_of_the_reports() -> None:
    store, trends = Store(), Trends()
    for number in range(10):
        at = NOW + number * STEP
        trends.advance(store.fleet, at)
        store.add_report(b"key", report(seq=number, at=at, records=30 * number, lanes=[lane(0, lag=number)]), at, at)
    trends.advance(store.fleet, NOW + 10 * STEP)
    assert [one for one in trends.lag("shop") if one is not None] == list(range(10))
    assert trends.rate("shop")[-1] == 10.0
    assert trends.lane("shop", "orders", 0)[-1] == 9
    # A late report leaves no hole.
    trends.advance(store.fleet, NOW + 11 * STEP + 1)
    assert trends.lag("shop")[-2:] == (9, 9)
    # A dead process has no figures; what is older than the samples is forgotten.
    trends.advance(store.fleet, NOW + 20 * STEP)
    assert trends.lag("shop")[-1] is None
    trends.advance(store.fleet, NOW + 500 * STEP)
    assert trends.lag("shop") == ()


@given(st.lists(st.none() | st.floats(0, 1e12), max_size=SAMPLES), st.integers(1, SAMPLES))
def test_a_sparkline_has_its_width_and_reaches_its_top(values: list[float | None], width: int) -> None:
    for blocks in (BLOCKS, PLAIN):
        line = sparkline(values, width, blocks)
        assert len(line) == width
        assert set(line) <= {*blocks, " "}
        known = [one for one in values[-width:] if one is not None]
        if known and max(known) > 1:
            assert blocks[-1] in line
        assert line.count(" ") == width - len(known)
