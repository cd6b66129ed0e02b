"""Dead letters once they are written, without a broker."""

from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from grete import _native
from grete._cli import main
from grete._cli.dlq.list import truncate
from grete._cli.dlq.show import format_bytes
from grete._dlq import header_names
from grete._dlq.checkpoint import CheckpointError, ReplayedOffsets, ReplayHistory, check_within_log, group_for
from grete._dlq.dead_letter import DeadLetter, format_time, parse_dead_letter
from grete._dlq.filter import DeadLetterFilter
from grete._dlq.rate_limiter import RateLimiter
from tests.unit.record_batches import Record, batch

Headers = list[tuple[str, bytes | None]]


def letter(given: Headers | None = None, *, offset: int = 17, partition: int = 3) -> DeadLetter | None:
    record = Record(
        offset, b"value", b"key", 5, given if given is not None else [(header_names.SOURCE_TOPIC, b"orders")]
    )
    (message,) = _native._testing_decode(batch([record]), "orders.dlq", partition)
    return parse_dead_letter(message)


def sure(given: Headers | None = None, **where: int) -> DeadLetter:
    found = letter(given, **where)
    assert found is not None
    return found


def test_headers_are_read_as_they_are_written() -> None:
    found = sure(
        [
            ("trace", b"1"),
            (header_names.SOURCE_TOPIC, b"orders"),
            (header_names.SOURCE_PARTITION, b"3"),
            (header_names.SOURCE_OFFSET, b"17"),
            (header_names.SOURCE_GROUP, "grün".encode()),
            (header_names.ATTEMPTS, b"5"),
            (header_names.ERROR_CLASS, b"app.PaymentError"),
            (header_names.ERROR_MESSAGE, b"no\xff"),
            (header_names.FIRST_FAILED, b"2023-11-14T22:13:20.123Z"),
            (header_names.LAST_FAILED, b"2023-11-14T22:14:20.456Z"),
            (header_names.REPLAYED, b"2"),
        ]
    )
    assert (found.origin, found.group, found.attempts, found.error_class) == (
        "orders[3]@17",
        "grün",
        5,
        "app.PaymentError",
    )
    assert (found.error_message, found.replay_count) == ("no\ufffd", 2)
    assert format_time(found.last_failed) == "2023-11-14T22:14:20.456Z"
    assert found.headers_to_replay() == [("trace", b"1"), (header_names.REPLAYED, b"3")]


@pytest.mark.parametrize(
    "given", [[], [("trace", b"1")], [(header_names.SOURCE_TOPIC, None)], [(header_names.SOURCE_TOPIC, b"")]]
)
def test_what_names_no_source_is_no_dead_letter(given: Headers) -> None:
    assert letter(given) is None


@pytest.mark.parametrize("text", [b"", b"x", b"-1", b"1_0", "\u0663".encode(), b"9" * 30, b"\xff"])
def test_unreadable_headers_are_none(text: bytes) -> None:
    names = (header_names.SOURCE_PARTITION, header_names.ATTEMPTS, header_names.LAST_FAILED, header_names.REPLAYED)
    found = sure([(header_names.SOURCE_TOPIC, b"orders"), *((name, text) for name in names)])
    assert (found.source_partition, found.attempts, found.last_failed, found.replay_count) == (None, None, None, 0)
    assert found.origin == "orders"
    assert found.headers_to_replay() == [(header_names.REPLAYED, b"1")]


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("app.errors.PaymentError", True),
        ("PaymentError", True),
        ("errors.PaymentError", True),
        ("*Error", True),
        ("app.*", True),
        ("Error", False),
        ("paymenterror", False),
        ("PaymentErro", False),
    ],
)
def test_errors_are_selected_with_or_without_their_module(pattern: str, covered: bool) -> None:
    found = sure([(header_names.SOURCE_TOPIC, b"orders"), (header_names.ERROR_CLASS, b"app.errors.PaymentError")])
    assert DeadLetterFilter(error=pattern).matches(found) == covered


def test_a_selection_meets_all_its_conditions() -> None:
    found = sure([(header_names.SOURCE_TOPIC, b"orders"), (header_names.SOURCE_PARTITION, b"1")])
    for selection in (
        DeadLetterFilter(),
        DeadLetterFilter(partition=3),
        DeadLetterFilter(partition=3, offset=17),
        DeadLetterFilter(source="orders"),
        DeadLetterFilter(source="orders:1"),
    ):
        assert selection.matches(found), selection
    for selection in (
        DeadLetterFilter(partition=1),
        DeadLetterFilter(partition=3, offset=18),
        DeadLetterFilter(source="order"),
        DeadLetterFilter(source="orders:0"),
        DeadLetterFilter(partition=3, source="clicks"),
        DeadLetterFilter(error="*Error"),
    ):
        assert not selection.matches(found), selection
    with pytest.raises(ValueError, match="TOPIC or TOPIC:PARTITION"):
        DeadLetterFilter(source="orders[1]")


numbers = st.none() | st.integers(0, 1 << 62)
selections = st.builds(
    DeadLetterFilter,
    partition=numbers,
    offset=numbers,
    error=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    source=st.none() | st.from_regex(r"[A-Za-z0-9._-]+(:[0-9]+)?", fullmatch=True),
)


@given(selections, st.none() | st.from_regex(r"[a-z.]+", fullmatch=True))
def test_a_groups_name_encodes_its_selection(selection: DeadLetterFilter, to: str | None) -> None:
    base, mark, query = group_for("grete-dlq-replay.orders.dlq", selection, to).partition("?")
    assert base == "grete-dlq-replay.orders.dlq"
    assert bool(mark) == (selection != DeadLetterFilter() or to is not None)
    assert DeadLetterFilter.from_query(query) == (selection, {} if to is None else {"to": to})


@given(st.text())
def test_any_groups_name_can_be_looked_at(query: str) -> None:
    try:
        selection, beside = DeadLetterFilter.from_query(query)
    except ValueError:
        return
    if query.isascii() and not beside:
        assert DeadLetterFilter.from_query(selection.to_query()) == (selection, {})


def test_a_history_covers_what_any_replay_has_sent() -> None:
    past = ReplayHistory(
        {
            "all": ReplayedOffsets(DeadLetterFilter(), {3: 10}),
            "one": ReplayedOffsets(DeadLetterFilter(partition=3, offset=17), {3: 18}),
        }
    )
    assert past.covers(sure(offset=9))
    assert not past.covers(sure(offset=10))
    assert past.covers(sure(offset=17))
    assert not past.covers(sure(offset=9, partition=2))
    assert past.before("all") == {3: 10}
    assert past.before("none") == {}


def test_a_topic_that_was_made_anew_is_noticed() -> None:
    check_within_log("orders.dlq", "g", {0: 10}, [(0, 10), (1, 0)])
    with pytest.raises(CheckpointError, match="grete groups delete 'g'"):
        check_within_log("orders.dlq", "g", {0: 11}, [(0, 10)])


class Clock:
    """A time that only the test moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("grete._dlq.rate_limiter.time", clock)
    return clock


@pytest.mark.parametrize(("records", "per"), [(1, 1.0), (100, 1.0), (5000, 60.0), (20_000, 1.0)])
def test_a_pace_is_kept_without_hurry_and_without_waking_for_each_record(
    clock: Clock, records: int, per: float
) -> None:
    pace, sent, waits = RateLimiter(records, per), 0, 0
    while clock.now < 100.0 + 3 * per:
        wait = pace.acquire()
        if wait == 0:
            sent += 1
        else:
            assert wait >= 0.01
            clock.now += wait
            waits += 1
    assert 0.95 * 3 * records <= sent <= 3 * records + 1 + records / per * 0.05
    assert waits <= min(3 * records + 1, 300 * per + 1)


def test_a_pause_is_not_made_up_for(clock: Clock) -> None:
    pace = RateLimiter(100, 1.0)
    clock.now += 60.0
    burst = 0
    while pace.acquire() == 0:
        burst += 1
    assert burst <= 6


def test_texts_are_cut_for_a_table() -> None:
    assert truncate("one\n  two\x1b[1m") == "one two\\x1b[1m"
    assert len(truncate("x" * 1000)) == 60
    assert truncate("x" * 1000).endswith("…")


@pytest.mark.parametrize(
    ("value", "form", "lines"),
    [
        (b'{"a":[1]}', "auto", ["{", '  "a": [', "    1", "  ]", "}"]),
        (b'{"a":[1]}', "text", ['{"a":[1]}']),
        ("grün\nzwei".encode(), "auto", ["grün", "zwei"]),
        (b"bell\x07", "text", ["bell\\x07"]),
        (b"bell\x07", "auto", ["00000000  62 65 6c 6c 07                                   bell."]),
        (b"\xff", "text", ["\\xff"]),
        (b"", "hex", []),
        (bytes(17), "hex", ["00000000  " + "00 " * 15 + "00  " + "." * 16, "00000010  00" + " " * 47 + "."]),
    ],
)
def test_values_are_shown_as_what_they_are(value: bytes, form: Any, lines: list[str]) -> None:
    assert format_bytes(value, form) == lines


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["list", "t", "--since", "tomorrow"], 2, "how long ago"),
        (["list", "t", "--summary", "--limit", "3"], 2, "leave out --limit"),
        (["list", "t", "--source", "a b"], 2, "TOPIC:PARTITION"),
        (["replay", "t", "--rate", "fast"], 2, "100/s"),
        (["replay", "t", "--rate", "0"], 2, "at least one"),
        (["replay", "t", "--to", "t"], 2, "where they are"),
        (["replay", "t", "--offset", "3"], 2, "--partition"),
        (["replay", "t", "--group", "a?b"], 2, 'without "?"'),
        (["list", "t", "--timeout", "300ms"], 1, "no connection to the broker"),
        (["show", "t", "0", "0", "--timeout", "300ms"], 1, "no connection to the broker"),
        (["replay", "t", "--timeout", "300ms"], 1, "no connection to the broker"),
        (["purge", "t", "--timeout", "300ms"], 1, "no connection to the broker"),
    ],
)
def test_what_cannot_be_is_explained(words: list[str], status: int, says: str) -> None:
    result = CliRunner().invoke(main, ["dlq", *words, "--bootstrap", "127.0.0.1:1"])
    assert (result.exit_code, says in result.output) == (status, True), result.output


def test_times_are_shown_in_utc() -> None:
    assert format_time(datetime(2026, 1, 31, 12, tzinfo=UTC), "seconds") == "2026-01-31T12:00:00Z"
    assert format_time(None) is None
