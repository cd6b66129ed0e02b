"""What a supervisor makes of what comes through a node's pipe."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grete._swarm.node.report import (
    MAX_FRAME,
    FailedPartition,
    GroupMembership,
    LaneCounts,
    LastError,
    MissingTopic,
    OldestJob,
    OverdueJob,
    Report,
    ReportError,
    ReportReader,
    UnmovedLane,
)
from grete.errors import GreteError

UNMOVED = {
    "handler": "Orders.consume",
    "topic": "orders",
    "partition": 5,
    "waits_for": "memory",
    "wait": "all partitions hold too much",
    "seconds": 31.5,
    "lag": None,
}


def content(**changes: Any) -> dict[str, Any]:
    return {
        "v": 1,
        "seq": 17,
        "uptime": 12.3,
        "ready": True,
        "quiet": False,
        "stopping": False,
        "gil_wait": 0.004,
        "loop_wait": 0.25,
        "rss": 12345678,
        "pss": None,
        "groups": [
            {
                "group": "shop",
                "state": "stable",
                "since": 3.2,
                "ready": True,
                "generation": 4,
                "partitions": 3,
                "instance": "host-0",
                "connections": 2,
                "login_failure": None,
                "authorization_failure": "the client needs Read",
            }
        ],
        "lanes": {"idle": 3, "ready": 0, "running": 1, "paused": 0, "failed": 1, "leaving": 0},
        "lag": 1200,
        "oldest": {"handler": "Orders.consume", "topic": "orders", "partition": 3, "seconds": 12.5, "overdue": True},
        "overdue": [
            {"handler": "Orders.consume", "topic": "orders", "partition": 3, "seconds": 12.5, "limit": 10.0},
        ],
        "stalled": ["orders[3]"],
        "unmoved": [UNMOVED],
        "missing": [{"topic": "orders.dlq", "text": "does not exist"}],
        "failed": [
            {
                "handler": "Orders.consume",
                "topic": "orders",
                "partition": 4,
                "failure": "no_offset",
                "error": "it has none",
                "seconds": 2.5,
            }
        ],
        "jobs": 1000,
        "records": 100000,
        "failures": 1,
        "dead_letters": 2,
        "workers": 5,
        "dropped": 0,
        **changes,
    }


def text(**changes: Any) -> bytes:
    return json.dumps(content(**changes)).encode()


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def test_a_report_says_all_of_it() -> None:
    assert Report.from_json(text()) == Report(
        seq=17,
        uptime=12.3,
        ready=True,
        quiet=False,
        stopping=False,
        gil_wait=0.004,
        loop_wait=0.25,
        rss=12345678,
        pss=None,
        groups=(GroupMembership("shop", "stable", 3.2, True, 4, 3, "host-0", 2, None, "the client needs Read"),),
        lanes=LaneCounts(idle=3, ready=0, running=1, paused=0, failed=1, leaving=0),
        lag=1200,
        oldest=OldestJob("Orders.consume", "orders", 3, 12.5, True),
        overdue=(OverdueJob("Orders.consume", "orders", 3, 12.5, 10.0),),
        stalled=("orders[3]",),
        unmoved=(UnmovedLane("Orders.consume", "orders", 5, "memory", "all partitions hold too much", 31.5, None),),
        missing=(MissingTopic("orders.dlq", "does not exist"),),
        failed=(FailedPartition("Orders.consume", "orders", 4, "no_offset", "it has none", 2.5),),
        jobs=1000,
        records=100000,
        failures=1,
        dead_letters=2,
        workers=5,
        dropped=0,
    )


def test_the_error_that_ends_a_process_is_its_last_frame() -> None:
    reader = ReportReader()
    frame = LastError("cannot log in\n" + "x" * 5000).frame()
    report, error = reader.feed(len(text()).to_bytes(4, "big") + text() + frame)
    assert report == Report.from_json(text())
    assert isinstance(error, LastError)
    assert error.text.startswith("cannot log in\\x0ax")
    assert len(error.text) < 1100
    for wrong in (b'{"v": 1, "error": 5}', b'{"v": 1, "error": null}', b'{"v": 2, "error": "x"}'):
        with pytest.raises(ReportError):
            ReportReader().feed(len(wrong).to_bytes(4, "big") + wrong)


def test_what_may_be_unknown_may_be_null() -> None:
    report = Report.from_json(text(rss=None, lag=None, oldest=None, groups=[], overdue=[], stalled=[]))
    assert (report.rss, report.lag, report.oldest) == (None, None, None)
    assert (report.groups, report.overdue, report.stalled) == ((), (), ())


def test_what_a_newer_node_adds_is_ignored() -> None:
    group = {**content()["groups"][0], "colour": "red"}
    assert Report.from_json(text(groups=[group], weather=[1, {}])) == Report.from_json(text())


@pytest.mark.parametrize("name", sorted(content()))
def test_a_missing_field_is_named(name: str) -> None:
    fields = content()
    del fields[name]
    with pytest.raises(ReportError, match=rf"^report has no {name}$"):
        Report.from_json(json.dumps(fields).encode())


NO_COUNTS = [-1, 1.5, True, "1", 2**63, 10**400, [], {}]
NO_SECONDS = [-0.001, float("nan"), float("inf"), float("-inf"), 1e13, 10**400, True, "1", [], {}]


@pytest.mark.parametrize("name", ["seq", "rss", "pss", "lag", "jobs", "records", "failures", "dead_letters", "workers"])
@pytest.mark.parametrize("value", NO_COUNTS)
def test_counts_are_counts(name: str, value: object) -> None:
    with pytest.raises(ReportError, match=rf"report\.{name} is .* not a count"):
        Report.from_json(text(**{name: value}))


@pytest.mark.parametrize("name", ["uptime", "gil_wait"])
@pytest.mark.parametrize("value", [*NO_SECONDS, None])
def test_times_are_times(name: str, value: object) -> None:
    with pytest.raises(ReportError, match=rf"report\.{name} is .* not a number of seconds|no number of JSON"):
        Report.from_json(text(**{name: value}))


def test_a_float_too_large_for_one_is_refused() -> None:
    with pytest.raises(ReportError, match="gil_wait is inf"):
        Report.from_json(text(gil_wait=0.0).replace(b'"gil_wait": 0.0', b'"gil_wait": 1e999'))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"v": 2}, "report.v is 2, and this supervisor reads version 1"),
        ({"ready": 1}, "report.ready is 1, not true or false"),
        ({"ready": None}, "report.ready is None, not true or false"),
        ({"groups": {}}, "report.groups is {}, not a list"),
        ({"groups": [7]}, "report.groups[0] is 7, not an object"),
        ({"groups": [content()["groups"][0], {}]}, "report.groups[1] has no group"),
        ({"lanes": None}, "report.lanes is None, not an object"),
        ({"oldest": []}, "report.oldest is [], not an object"),
        ({"stalled": ["a", 1]}, "report.stalled is ['a', 1], not a list of texts"),
        ({"stalled": ["\ud800"]}, "report.stalled is ['\\ud800'], not a list of texts"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ReportError) as caught:
        Report.from_json(text(**changes))
    assert str(caught.value) == says


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\xff\xfe\xfd",
        b"null",
        b"[]",
        b"7",
        b"{",
        b"[" * 60_000,
        b'{"v":' * 10_000,
        b"9" * 60_000,
        b'{"v":' + b"9" * 60_000 + b"}",
    ],
)
def test_nonsense_is_refused_in_few_words(body: bytes) -> None:
    with pytest.raises(ReportError) as caught:
        Report.from_json(body)
    assert isinstance(caught.value, GreteError)
    assert 0 < len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


@given(st.lists(st.integers(0, 2**40), max_size=6), st.data())
def test_reports_come_in_whatever_pieces(numbers: list[int], data: st.DataObject) -> None:
    stream = b"".join(frame(text(seq=number)) for number in numbers)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader, reports = ReportReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reports += reader.feed(stream[start:end])
    assert [report.seq for report in reports if isinstance(report, Report)] == numbers


def total(read: Callable[[], object]) -> None:
    try:
        read()
    except ReportError as error:
        assert str(error).isprintable()  # noqa: PT017


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_make_reports_or_a_report_error(pieces: list[bytes]) -> None:
    reader = ReportReader()
    for piece in pieces:
        total(lambda piece=piece: reader.feed(piece))  # type: ignore[misc]


@given(st.binary(max_size=2000))
def test_any_frame_makes_a_report_or_a_report_error(body: bytes) -> None:
    total(lambda: ReportReader().feed(frame(body)))


NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, -1, 10**400, 1e308])
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.sampled_from(["\ud800", "\x00", "\u2028"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.data())
def test_any_value_in_any_place_makes_a_report_or_a_report_error(data: st.DataObject) -> None:
    fields = content()
    target = data.draw(st.sampled_from([fields, fields["groups"][0], fields["lanes"], fields["oldest"]]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(ANYTHING)
    total(lambda: Report.from_json(json.dumps(fields).encode()))


def test_a_long_frame_is_refused_before_it_comes() -> None:
    with pytest.raises(ReportError, match=r"GET / HTTP.* begins no frame: .* at most 65536"):
        ReportReader().feed(b"GET / HTTP/1.1\r\n")
    largest = text(stalled=["x" * (MAX_FRAME - len(text(stalled=[""])))])
    assert len(largest) == MAX_FRAME
    assert len(ReportReader().feed(frame(largest))) == 1
    with pytest.raises(ReportError, match="65537 bytes were to follow"):
        ReportReader().feed((MAX_FRAME + 1).to_bytes(4, "big"))


def test_nothing_is_believed_after_an_error() -> None:
    reader = ReportReader()
    with pytest.raises(ReportError) as first:
        reader.feed(frame(b"nonsense") + frame(text()))
    with pytest.raises(ReportError) as second:
        reader.feed(frame(text()))
    assert str(second.value) == str(first.value)


def test_a_reader_keeps_less_than_a_frame() -> None:
    reader = ReportReader()
    stream = frame(text(stalled=["x" * 60_000])) * 50
    for start in range(0, len(stream), 1000):
        reader.feed(stream[start : start + 1000])
        assert sys.getsizeof(reader._partial) < 3 * MAX_FRAME
    assert len(reader._partial) == 0
