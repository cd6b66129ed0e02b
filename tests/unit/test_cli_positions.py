"""Positions, formats and escapes of commands."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from grete import _native
from grete._cli import COMMANDS, main
from grete._cli.options import set_up_logging
from grete._cli.param_ranges import FromEnd, moment_of, position_of
from grete._cli.positions import limit
from grete._cli.session import confirm
from grete._cli.terminal import message_format
from grete._cli.terminal.escapes import json_safe, printable, printable_lines
from grete._native import Messages
from tests.unit.record_batches import Record, batch

HOSTILE = "\x1b[2J\x07\x9b31m\u202egnp.exe\u2028\x7f"


def messages(*records: Record) -> Messages:
    return _native._testing_decode(batch(list(records)), "orders", 3)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("0", 0),
        ("4000", 4000),
        ("-10", FromEnd(10)),
        ("-0", FromEnd(0)),
        ("2026-01-31T12:00:00+00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_a_position_is_an_end_an_offset_a_distance_or_a_time(text: str, position: object) -> None:
    assert position_of(text) == position


@pytest.mark.parametrize(("text", "hours"), [("1h", 1.0), ("-1h", 1.0), ("90m", 1.5), ("0s", 0.0)])
def test_a_time_is_also_how_long_ago(text: str, hours: float) -> None:
    for parse in (position_of, moment_of):
        before = datetime.now(UTC)
        found = parse(text)
        assert isinstance(found, datetime)
        assert before <= found + timedelta(hours=hours) <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["", "-", "+5", "noon", "1x", "--5", "-5-", "99999999999999h"])
def test_what_is_no_position_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no position: give earliest, latest, an offset, -10 .* like 1h$"):
        position_of(text)


LEAVES = st.none() | st.booleans() | st.integers() | st.text()
ENDS = {("orders", 0): 100, ("orders", 1): 40}
STARTS = {("orders", 0): 30, ("orders", 1): 0}


@pytest.mark.parametrize(
    ("position", "offsets", "says"),
    [
        (35, [35, 35], ""),
        (0, [30, 0], ""),
        (FromEnd(50), [50, 0], ""),
        (FromEnd(99), [30, 0], ""),
        (7, [30, 7], "offset 7 is before the first record of orders[0], which begins at 30: that is taken instead\n"),
        (60, [60, 40], "offset 60 is beyond the end of orders[1], which ends at 40: that is taken instead\n"),
        (
            999999999,
            [100, 40],
            (
                "offset 999999999 is beyond the end of 2 partitions of orders (the first, orders[0], ends at 100): "
                "these offsets are taken instead\n"
            ),
        ),
    ],
)
def test_an_offset_that_is_not_in_the_log_is_named(
    position: int | FromEnd, offsets: list[int], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(limit(position, STARTS, ENDS).values()) == offsets
    assert capsys.readouterr() == ("", says)


def test_json_values_are_json_with_their_own_digits() -> None:
    value = b'{"b": 1.10, "a": [1e3,\n\t18446744073709551616], "b": "\xc2\x9b"}'
    (line,) = message_format.format_json(messages(Record(5, value, b"k", 7, [("h", b"1")]))).splitlines()
    shown = '{"b": 1.10, "a": [1e3,  18446744073709551616], "b": "\\u009b"}'
    assert line.decode() == (
        '{"topic":"orders","partition":3,"offset":5,"timestamp":7,"key":"k",'
        f'"value":{shown},"headers":[{{"name":"h","value":"1"}}]}}'
    )
    assert json.loads(line)["value"]["a"] == [1000.0, 18446744073709551616]
    (exact,) = message_format.format_json(messages(Record(5, value, b"k", 7)), exact=True).splitlines()
    assert json.loads(exact)["value"].encode() == value


@pytest.mark.parametrize("value", [b"1", b'"text"', b"null", b"{", b"[NaN]", b'{"a":1}x', b"[" * 5000, b'["\n"]'])
def test_other_values_are_strings(value: bytes) -> None:
    (line,) = message_format.format_json(messages(Record(0, value, None, 0))).decode().splitlines()
    assert json.loads(line)["value"] == value.decode()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_is_one_line_that_means_the_same(value: object) -> None:
    for text in (json.dumps(value, ensure_ascii=False), json.dumps(value, indent=2)):
        data = text.encode("utf-8", "replace")
        lines = message_format.format_json(messages(Record(0, data, None, 0))).decode()
        assert lines.count("\n") == 1
        assert printable(lines[:-1]) == lines[:-1]
        shown = json.loads(lines)["value"]
        assert shown == (json.loads(data) if isinstance(value, (list, dict)) else data.decode())


def test_fields_of_a_format() -> None:
    found = messages(Record(5, b"v\xff", None, 1_000, [("a", b"1"), ("b", None)]))
    lines = message_format.template(r"{topic}[{partition}]\t{offset} {timestamp} {time} {key} {value} {headers} {{}}")
    assert lines(found, True).decode() == (
        "orders[3]\t5 1000 1970-01-01T00:00:01.000+00:00 null v\\xff a=1,b=null {}\n"
    )
    assert message_format.template("{time}")(messages(Record(0, b"", None, -1)), True) == b"-\n"
    assert message_format.template("{key}")(messages(Record(0, b"", HOSTILE.encode(), 0)), True).isascii()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{offsets}", "there are {topic}, {partition}"),
        ("{}", "is no field"),
        ("{value!r}", "is no field"),
        ("{value:>9}", "is no field"),
        ("{value.__class__}", "is no field"),
        ("{value", "is no format"),
        (r"\q", "is no escape"),
    ],
)
def test_an_unknown_field_is_refused(text: str, says: str) -> None:
    result = CliRunner().invoke(main, ["consume", "t", "--format", text])
    assert (result.exit_code, says in result.output) == (2, True), result.output


def test_what_a_terminal_would_obey_is_escaped_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    shown = "\\x1b[2J\\x07\\x9b31m\\u202egnp.exe\\u2028\\x7f"
    assert printable(f"{HOSTILE}\n\t") == f"{shown}\\x0a\t"
    assert printable_lines(f"{HOSTILE}\n") == f"{shown}\n"
    assert json.loads(json_safe(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE
    found = messages(Record(0, HOSTILE.encode(), HOSTILE.encode(), 0))
    assert message_format.format_text(found, escape_control=True, key_separator=b"\t").decode() == f"{shown}\t{shown}\n"
    assert message_format.format_json(found).isascii()
    with pytest.raises(click.UsageError):
        confirm(f"Delete {HOSTILE}?", yes=False)
    assert capsys.readouterr().err.isascii()


def test_errors_and_log_lines_command_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def hostile() -> None:
        root = logging.getLogger()
        monkeypatch.setattr(root, "handlers", [])
        set_up_logging("WARNING")
        root.warning("a record said: %s", HOSTILE)
        raise click.ClickException(f"a broker said: {HOSTILE}")

    monkeypatch.setattr("grete._cli.terminal.hostile", hostile, raising=False)
    monkeypatch.setitem(COMMANDS, "hostile", ("grete._cli.terminal:hostile", ""))
    with pytest.raises(SystemExit):
        main(["hostile"])
    err = capsys.readouterr().err
    assert (err.count("\\x1b[2J"), err.isascii()) == (2, True), err


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "delete"],
        ["groups", "reset"],
        ["groups", "delete"],
        ["groups", "remove-member"],
        ["groups", "delete-offsets"],
        ["dlq", "replay"],
        ["dlq", "purge"],
    ],
    ids=" ".join,
)
def test_what_destroys_or_repeats_has_one_scheme(words: list[str]) -> None:
    help_text = CliRunner().invoke(main, [*words, "--help"]).output
    assert "-y, --yes" in help_text
    assert "--dry-run" in help_text
    assert "--execute" not in help_text
