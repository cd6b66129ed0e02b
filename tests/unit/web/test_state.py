"""State of `grete web`: processes, series, errors; and records that are no reports."""

import json
import random
from typing import Any

import pytest

from grete._web.state.errors import parse_error
from grete._web.state.fleet import Fleet, stall_reason
from grete._web.state.lag_history import SAMPLES, STEP, LagHistory
from grete._web.state.report import InvalidReportError, Report, parse_report, parse_settings
from grete._web.state.series import FINE, MINUTE, NAMES, RANGES, TIERS, Series, column
from grete._web.state.store import Store, history_key
from tests.unit.web.simulated_reports import error, lane, report, settings

HOUR = 3_600_000
NOW = 1_800_000_000_000


def parsed(**more: Any) -> Report:
    return parse_report(report(**more))


def test_a_report_is_read_as_it_was_written() -> None:
    found = parsed(
        lanes=[lane(3, lag=7, failure="no_offset"), lane(4, topic="clicks")], jobs=[["charge", "orders", 3, 5, None]]
    )
    assert [(one.topic, one.partition, one.lag, one.failure) for one in found.lanes] == [
        ("orders", 3, 7, "no_offset"),
        ("clicks", 4, 0, ""),
    ]
    assert found.jobs[0].age == 5
    assert found.handlers[0].p99 == 25


@pytest.mark.parametrize("parse", [parse_report, parse_settings, lambda value: parse_error(value, (0, 0))])
def test_records_that_are_no_reports_raise_one_error_alone(parse: Any) -> None:
    seeded = random.Random(7)
    whole = [report(), settings(), error()]
    for _ in range(3000):
        data = bytearray(seeded.choice(whole))
        for _ in range(seeded.randrange(1, 6)):
            at = seeded.randrange(len(data))
            data[at : at + seeded.randrange(4)] = seeded.choice(
                [b"", b"null", b"[", b"9" * 30, b"-1", b"\xff", b'"x"', b"{}"]
            )
        try:
            parse(bytes(data))
        except InvalidReportError:
            pass
    for other in (
        b"",
        b"7",
        b"[]",
        b"NaN",
        b"[" * 100_000,
        b'{"v":2}',
        b'{"v":1}',
        json.dumps({"v": 1, "process": 3}).encode(),
    ):
        if parse is parse_report or other != b'{"v":1}':
            with pytest.raises(InvalidReportError):
                parse(other)


def test_a_process_without_reports_is_dead_within_ten_seconds() -> None:
    fleet = Fleet()
    fleet.add(parsed(every=3000), NOW)
    process = fleet.get("shop/host-1/7-abc")
    assert process is not None
    assert process.state(NOW + 7_000) == "running"  # one report may be late
    assert process.state(NOW + 8_000) == "dead"
    assert "no report for 8 s" in process.problems(NOW + 8_000)[0]
    fleet.add(parsed(seq=1, state="stopped"), NOW + 9_000)
    assert process.state(NOW + HOUR) == "stopped"
    assert not process.problems(NOW + HOUR)


def test_counts_are_those_since_the_last_report() -> None:
    fleet = Fleet()
    assert fleet.add(parsed(records=10), NOW).records == 10, "its first report: everything since the start"
    assert fleet.add(parsed(records=25, seq=1, at=1_003_000), NOW).records == 15
    assert fleet.add(parsed(records=25, seq=1), NOW).records == 0, "read again"
    assert fleet.add(parsed(records=10), NOW).records == 0, "an older copy"
    assert fleet.add(parsed(name="shop/host-2/8-d", records=900, seq=40), NOW).records == 0, (
        "what came before is not known"
    )


@pytest.mark.parametrize(
    ("changes", "more", "kind", "text"),
    [
        ({"lag": 0}, {}, "ok", "up to date"),
        ({"lag": 5, "state": "ready"}, {}, "wait", "waits for a worker (1 of 5 busy)"),
        ({"lag": 5, "running": 1500}, {}, "busy", "charge runs for 1.5 s"),
        ({"lag": 5, "attempt": 3, "paused": 2500}, {}, "wait", "attempt 3 at offset 100 begins in 2.5 s"),
        ({"lag": 5, "running": 61000, "stalled": 1}, {}, "bad", "charge has run for 61 s"),
        ({"lag": None, "failure": "no_offset", "state": "failed"}, {}, "bad", "cannot be read: no_offset"),
        ({"lag": 5, "running": 9000}, {"gil_wait": 8000}, "bad", "the GIL of its process has been held for 8.0 s"),
        ({"lag": 5}, {"state": "quiet"}, "wait", "its process is quiet"),
        ({"lag": 5, "state": "paused"}, {}, "wait", "paused"),
        ({"lag": 5, "waits_for": "no_leader"}, {}, "wait", "has no leader"),
        ({"lag": 5, "waits_for": "data"}, {}, "busy", "reads"),
        (
            {"lag": 0, "waits_for": "open_transaction", "unmoved": 31_400, "stall": "a transaction is open"},
            {},
            "bad",
            "has not moved for 31 s: a transaction is open",
        ),
        (
            {"lag": 5, "waits_for": "paused", "unmoved": 31_400, "stall": "the program has paused it"},
            {},
            "wait",
            "has not moved for 31 s: the program has paused it",
        ),
    ],
)
def test_each_lane_that_does_not_move_has_a_reason(
    changes: dict[str, Any], more: dict[str, Any], kind: str, text: str
) -> None:
    fleet = Fleet()
    fleet.add(parsed(lanes=[lane(**changes)], **more), NOW)
    ((process, found),) = fleet.lanes()
    assert stall_reason(process, found, NOW) == (kind, text)
    assert stall_reason(process, found, NOW + 9000)[0] == "bad", "its process is dead"


def test_a_report_of_an_older_grete_tells_no_waits() -> None:
    content = json.loads(report())
    content["lanes"] = [row[:-3] for row in content["lanes"]]
    (found,) = parse_report(json.dumps(content).encode()).lanes
    assert (found.waits_for, found.unmoved_for, found.stall, found.failure) == ("", 0, "", "")


def test_counts_are_spread_over_the_time_in_which_they_arose() -> None:
    series = Series()
    for step in range(0, 600, 3):
        series.count(NOW / 1000 + step, NOW / 1000 + step + 3, {"records": 30})
    starts, rows = series.window(FINE, NOW / 1000 + 600)
    inside = [
        value for at, value in zip(starts, column(rows, "records", FINE), strict=True) if 0 < at - NOW / 1000 < 590
    ]
    assert inside == pytest.approx([10.0] * len(inside))
    for tier in TIERS:
        known = [
            value for value in column(series.window(tier, NOW / 1000 + 600)[1], "records", tier) if value is not None
        ]
        assert sum(known) * tier.step == pytest.approx(6000)


def test_ninety_days_fit_into_little_memory_and_a_bounded_topic() -> None:
    store, keys, size = Store(), set(), 0
    # Each minute of 90 days, without their seconds: the fine rows are those of the last hour.
    begin = NOW // 1000 - 90 * 86_400
    for minute in range(begin, NOW // 1000, 60):
        store.series.count(float(minute), minute + 60.0, {"records": 60})
        if minute % 86_400 < 60:
            store.series.expire(float(minute))
    store.series.expire(NOW / 1000)
    assert len(store.series) < 3000
    for tier in TIERS[1:]:
        keys |= {history_key(tier, start) for start in range(0, 400 * 86_400, tier.step)}
        size += tier.kept // tier.step * 1500
    assert len(keys) == sum(tier.kept // tier.step for tier in TIERS[1:]) < 2100
    assert size < 5 << 20
    assert set(RANGES) == {"1h", "1d", "7d", "90d"}


def test_history_is_complete_after_a_restart() -> None:
    before = Store()
    records = []
    for step in range(0, 660, 3):
        now = NOW + step * 1000
        value = report(seq=step // 3, records=step * 10, at=now)
        records.append((value, now))
        before.add_report(b"p", value, now, now)
        before.measure(now)
    kept = dict(before.due_history(NOW + 660_000))
    assert kept
    after = Store()
    end = NOW + 660_000
    for key, one in kept.items():
        after.restore(key, one, end)
    assert after.kept_until == before.kept_until
    for value, at in records:  # the topic of reports is read again from its beginning
        after.add_report(b"p", value, at, end, live=False)
    for tier in (FINE, MINUTE):
        old, new = (column(store.series.window(tier, end / 1000)[1], "records", tier) for store in (before, after))
        kept_from = before.kept_until - 60
        starts = before.series.window(tier, end / 1000)[0]
        compared = [(a, b) for at, a, b in zip(starts, old, new, strict=True) if at >= kept_from and a is not None]
        assert compared
        assert [b for _, b in compared] == pytest.approx([a for a, _ in compared], abs=0.01)


def test_hostile_history_changes_nothing() -> None:
    store = Store()
    good = {"v": 1, "start": NOW // 60_000 * 60, "names": list(NAMES), "row": [1.0] * len(NAMES)}
    for other in ({"start": -60}, {"start": 61}, {"start": 2**60}, {"row": ["x"]}, {"names": 7}, {"fine": 7}, {"v": 9}):
        store.restore(b"60/1", json.dumps(good | other).encode(), NOW + 120_000)
    for key in (b"", b"60", b"61/1", b"5/1", None):
        store.restore(key, json.dumps(good).encode(), NOW + 120_000)
    assert store.kept_until in (0, NOW // 60_000 * 60 + 60)
    store.restore(b"60/1", json.dumps(good).encode(), NOW + 120_000)
    assert len(store.series) == 1


def test_errors_are_grouped_by_place_and_not_by_their_numbers() -> None:
    store = Store()
    for offset in range(30):
        store.add_error(error(offset=offset, message=f"amount -{offset}"), (0, offset))
    store.add_error(error(traceback="", message="amount -5"), (0, 30))
    store.add_error(error(traceback="", message="amount -6", left_out=100), (0, 31))
    store.add_error(error(traceback="", message="amount -6"), (0, 31))  # read again
    first, second = store.errors.groups()
    assert (first.count, second.count) == (102, 30)
    assert second.example.offset == 29
    assert len(second.recent) == 20


def test_lag_history_is_a_ring_of_an_hour() -> None:
    history = LagHistory()
    key = ("shop", "orders", 0)
    for number in range(1, 300):
        history.sample(number * STEP, {key: number} if number % 50 else {})
    values = history.values(key)
    assert len(values) == SAMPLES == len(history.times())
    assert values[-1] == 299
    assert values.count(None) == 2
    history.sample(1000 * STEP, {})
    assert history.values(key) == [None] * SAMPLES
