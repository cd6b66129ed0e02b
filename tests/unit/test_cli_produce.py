"""`grete produce` without a broker: what becomes of lines, files and JSON, and what is said when something fails."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from select import select
from typing import Any, BinaryIO

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import grete
from grete import _native
from grete._cli import main
from grete._cli.records.produce_input import MAX_RECORD_BYTES, InputChunk, RecordFormat, read_file, read_lines
from grete._cli.terminal import message_format
from grete._cli.terminal.escapes import escaped, unescaped
from grete._cli.terminal.interrupt import Interrupt, Interrupted
from grete.errors import GreteError
from tests.unit.record_batches import Record, batch


class FakeDeliveries:
    """Settled when the fake producer is flushed."""

    def __init__(self, records: Sequence[Any], errors: list[tuple[int, GreteError]]) -> None:
        self.records = records
        self._errors = errors
        self.done = False
        self.partitions = [3] if records else []

    def __len__(self) -> int:
        return len(self.records)

    @property
    def errors(self) -> list[tuple[int, GreteError]]:
        assert self.done, "asked too early"
        return self._errors


class FakeProducer:
    """Takes everything but `full`, which ends its portion; records whose value is in `refused` fail later.

    `interrupts` are signals that come in flushes.
    """

    full = b"full"
    refused: frozenset[bytes] = frozenset()
    interrupts = 0
    latest: FakeProducer

    def __init__(self, settings: dict[str, str]) -> None:
        type(self).latest = self
        self.settings = settings
        self.sent: list[tuple[int | None, list[Any]]] = []
        self.under_way: list[FakeDeliveries] = []
        self.closed = False

    def partitions(self, topic: str, timeout: float) -> int:
        assert timeout > 0
        if topic == "missing":
            raise GreteError(f"topic {topic} is not there")
        return 4

    def produce_many(self, _topic: str, records: Sequence[Any], *, partition: int | None = None) -> FakeDeliveries:
        values = [record[1] if isinstance(record, tuple) else record for record in records]
        if self.full in values:
            taken = values.index(self.full)
            error = GreteError("no room")
            error.deliveries = self.produce_many(_topic, records[:taken], partition=partition)  # type: ignore[attr-defined]
            raise error
        errors = [(at, GreteError("refused")) for at, value in enumerate(values) if value in self.refused]
        self.sent.append((partition, list(records)))
        deliveries = FakeDeliveries(records, errors)
        self.under_way.append(deliveries)
        return deliveries

    def flush(self, timeout: float) -> None:
        assert timeout > 0
        if self.interrupts:
            type(self).interrupts -= 1
            signal.raise_signal(signal.SIGINT)
            raise TimeoutError("pending")
        for deliveries in self.under_way:
            deliveries.done = True

    def close(self, timeout: float) -> None:
        assert timeout == 0.0
        self.closed = True


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("grete._cli.records.produce.Producer", FakeProducer)
    monkeypatch.setattr(FakeProducer, "refused", frozenset())
    monkeypatch.setattr(FakeProducer, "interrupts", 0)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def call(*arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["produce", *arguments], input=given)


def sent() -> list[Any]:
    return [record for _, records in FakeProducer.latest.sent for record in records]


def test_a_line_is_a_record() -> None:
    result = call("orders", given=b"one\ntwo\r\n\n\xff\x00\nlast")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "5 records written to orders, 1 partition\n")
    assert sent() == [b"one", b"two\r", b"", b"\xff\x00", b"last"]
    assert FakeProducer.latest.closed
    assert FakeProducer.latest.settings["bootstrap.servers"] == "localhost:9092"


def test_no_input_is_no_record() -> None:
    result = call("orders")
    assert (result.exit_code, result.stderr) == (0, "0 records written to orders\n")
    assert sent() == []


def test_how_many_were_written_is_said_unless_it_shall_be_quiet() -> None:
    assert call("orders", given=b"x\n" * 10_000).stderr == "10,000 records written to orders, 1 partition\n"
    assert call("orders", given=b"x").stderr == "1 record written to orders, 1 partition\n"
    for option in ("--quiet", "-q"):
        result = call("orders", option, given=b"x\n" * 10_000)
        assert (result.exit_code, result.output) == (0, "")
    FakeProducer.refused = frozenset({b"bad"})
    assert "written to" not in call("orders", given=b"good\nbad\n").output


def test_settings_come_from_the_command_line() -> None:
    assert call("orders", "-k", "compression.type=zstd", "-k", "acks=1", "-k", "max.block.ms=5").exit_code == 0
    settings = FakeProducer.latest.settings
    assert (settings["compression.type"], settings["acks"], settings["max.block.ms"]) == ("zstd", "1", "5")


def test_key_headers_and_partition_go_to_every_record() -> None:
    given = ("orders", "--key", "k", "--header", "a=1", "-H", "b=x=y", "-H", "a=", "--partition", "3")
    assert call(*given, given=b"one\ntwo\n").exit_code == 0
    headers = (("a", b"1"), ("b", b"x=y"), ("a", b""))
    assert sent() == [(b"k", b"one", headers, None), (b"k", b"two", headers, None)]
    assert [partition for partition, _ in FakeProducer.latest.sent] == [3]


def test_keys_before_a_separator() -> None:
    assert (
        call("orders", "--key-separator", "::", "--null-value", "NULL", given=b"a::1\nb::x::y\n::\nc::NULL").exit_code
        == 0
    )
    assert sent() == [(b"a", b"1", (), None), (b"b", b"x::y", (), None), (b"", b"", (), None), (b"c", None, (), None)]


@pytest.mark.parametrize(
    ("typed", "separator", "shown"),
    [
        (r"\t", b"\t", r"\t"),
        ("\t", b"\t", r"\t"),
        (r"\0", b"\0", r"\0"),
        (r"\n", b"\n", r"\n"),
        (r"\x1f\x1F", b"\x1f\x1f", r"\x1f\x1f"),
        (r"\xff", b"\xff", r"\xff"),
        (r"\\t", rb"\t", r"\\t"),
        ("\\\\", b"\\", "\\\\"),
        ("->", b"->", "->"),
        ("ü", "ü".encode(), "ü"),
        ("\u00a0", "\u00a0".encode(), r"\xc2\xa0"),
    ],
)
def test_a_separator_is_typed_and_shown_with_escapes(typed: str, separator: bytes, shown: str) -> None:
    Path("record").write_bytes(b"k" + separator + b"v")
    assert call("orders", "--file", "record", "--key-separator", typed).exit_code == 0
    assert sent() == [(b"k", b"v", (), None)]
    result = call("orders", "--key-separator", typed, given=b"none")
    assert f'line 1 of standard input has no "{shown}" between key and value' in result.output
    assert unescaped(escaped(separator)) == separator


@given(st.binary(max_size=8))
def test_what_is_shown_of_bytes_can_be_typed(separator: bytes) -> None:
    assert unescaped(escaped(separator)) == separator


def test_a_line_without_separator_is_named_and_what_was_before_is_sent() -> None:
    shape = RecordFormat(key_separator=b"\t")
    reads = iter([b"a\t1\n", b"b\t2\nno tab\n", b""])
    portions = read_lines(lambda _: next(reads), "standard input", shape)
    assert next(portions).records == [(b"a", b"1", (), None)]
    with pytest.raises(click.ClickException, match="line 3 of standard input has no"):
        next(portions)
    result = call("orders", "--key-separator", ",", given=b"no comma\n")
    assert result.exit_code == 1
    assert 'line 1 of standard input has no "," between key and value' in result.output


def test_files_are_records_or_lines(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a\nb\n")
    (tmp_path / "two").write_bytes(b"")
    assert call("orders", "-f", "one", "-f", "two", given=b"not read").exit_code == 0
    assert sent() == [b"a\nb\n", b""]
    assert call("orders", "-f", "one", "-f", "two", "--lines").exit_code == 0
    assert sent() == [b"a", b"b"]


ROUND_TRIP = [
    Record(7, "grün".encode(), b"k", 5, [("trace", b"1"), ("raw", b"\xff"), ("none", None)]),
    Record(8, b"\xff\x00bin", None, 6),
    Record(9, None, b"\xfe", 7),
    Record(10, b"", b"", 8),
]


def test_json_of_consume_makes_the_round_trip() -> None:
    messages: grete.Messages = _native._testing_decode(batch(ROUND_TRIP), "orders", 2)
    lines = message_format.format_json(messages)
    expected = [(message.key, message.value, list(message.headers), message.timestamp) for message in messages]
    assert call("copy", "--json", given=lines).exit_code == 0
    assert sent() == expected
    assert FakeProducer.latest.sent[0][0] is None
    assert call("copy", "--json", "--keep-partitions", given=lines).exit_code == 0
    assert FakeProducer.latest.sent == [(2, expected)]


def test_kept_partitions_keep_the_order_and_know_their_lines() -> None:
    lines = [
        json.dumps({"partition": partition, "value": f"{at}"}).encode() for at, partition in enumerate([1, 0, 1, 1, 0])
    ]
    portions = list(RecordFormat(as_json=True, keep_partitions=True).to_chunks(lines, 10, "x"))
    found = {p.partition: [record[1] for record in p.records if isinstance(record, tuple)] for p in portions}
    assert found == {1: [b"0", b"2", b"3"], 0: [b"1", b"4"]}
    assert [portion.location(1) for portion in portions] == ["line 12 of x", "line 14 of x"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "no record in JSON"),
        (b"[1]", "no object"),
        (b'{"key": "k"}', 'has no "value"'),
        (b'{"value": 5}', '"value" is 5, not a string or null'),
        (b'{"value": "a", "value_base64": "YQ=="}', 'both "value" and "value_base64"'),
        (b'{"value_base64": "*"}', "no base64"),
        (b'{"value": "a", "timestamp": "now"}', '"timestamp" is "now", not a whole number'),
        (b'{"value": "a", "timestamp": true}', "not a whole number"),
        (b'{"value": "a", "timestamp": -1}', '"timestamp" is -1, not from 0 to 9223372036854775807'),
        (b'{"value": "a", "timestamp": 99999999999999999999}', "is 99999999999999999999, not from 0"),
        (b'{"value": "a", "partition": -1}', '"partition" is -1, not from 0 to 2147483647'),
        (b'{"value": "a", "partition": 2147483648}', '"partition" is 2147483648, not from 0'),
        (b'{"value": "a", "headers": [{"name": "\\ud800"}]}', "surrogates"),
        (b'{"value": "a", "headers": {"a": 1}}', "not a list"),
        (b'{"value": "a", "headers": [{"value": "1"}]}', 'an object with a "name"'),
        (b'{"value": "\xff"}', "utf-8"),
        (b'{"value": "\\ud800"}', "surrogates"),
    ],
)
def test_what_is_no_record_is_explained(line: bytes, says: str) -> None:
    result = call("orders", "--json", given=b'{"value": "fine"}\n' + line + b"\n")
    assert result.exit_code == 1
    assert "line 2 of standard input is no record in JSON" in result.output
    assert says in result.output


def test_a_failure_is_reported_with_its_line() -> None:
    FakeProducer.refused = frozenset({b"bad", b"worse"})
    result = call("orders", given=b"good\nbad\nfine\nworse\n")
    assert result.exit_code == 1
    assert "2 of 4 records were not delivered; the first, line 2 of standard input: refused" in result.output
    assert "acknowledged: 2" in result.output


def test_what_was_taken_before_a_refusal_counts() -> None:
    result = call("orders", given=b"one\ntwo\nfull\nthree\n")
    assert result.exit_code == 1
    assert "no room; acknowledged: 2" in result.output
    assert sent() == [b"one", b"two"]


@pytest.mark.parametrize("error", [grete.RecordTypeError, grete.RecordTooLargeError])
def test_a_refused_record_is_named_by_its_line(error: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error("too odd", topic="orders", index=2)

    monkeypatch.setattr(FakeProducer, "produce_many", refuse)
    result = call("orders", given=b"one\ntwo\nodd\nthree\n")
    assert (result.exit_code, "line 3 of standard input: too odd; acknowledged: 0" in result.output) == (1, True)


def test_an_input_that_cannot_be_read_is_named() -> None:
    def read(_: int) -> bytes:
        raise OSError(5, "Input/output error")

    with pytest.raises(click.ClickException, match="standard input cannot be read: Input/output error"):
        list(read_lines(read, "standard input", RecordFormat()))


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["orders", "--key-separator", r"\q"], 2, r'"\q" is no escape: there are \t, \n'),
        (["orders", "--key-separator", "\\"], 2, r'"\" is no escape'),
        (["orders", "--partition", "99999999999"], 2, "0<=x<=2147483647"),
        (["missing"], 1, "topic missing is not there"),
        (["orders", "--partition", "4"], 2, "orders has no partition 4: there are 4"),
        (["orders", "--header", "x"], 2, "NAME=VALUE"),
        (["orders", "--header", "=x"], 2, "NAME=VALUE"),
        (["orders", "--lines"], 2, "--lines without --file"),
        (["orders", "--file", "nowhere"], 2, "nowhere"),
        (["orders", "--key", "a", "--key-separator", ","], 2, "--key with --key-separator"),
        (["orders", "--key-separator", ""], 2, "an empty --key-separator"),
        (["orders", "--json", "--key", ""], 2, "--json with --key"),
        (["orders", "--json", "-H", "a=b"], 2, "--json with --key"),
        (["orders", "--keep-partitions"], 2, "--keep-partitions without --json"),
        (["orders", "--json", "--keep-partitions", "-p", "1"], 2, "--keep-partitions with --partition"),
        (["orders", "--kafka", "compresion.type=zstd"], 1, 'did you mean "compression.type"'),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], status: int, says: str) -> None:
    result = call(*arguments, given=b"x\n")
    assert (result.exit_code, says in result.output) == (status, True), result.output


def test_an_endless_line_is_refused_before_it_fills_the_memory() -> None:
    reads = 0

    def read(size: int) -> bytes:
        nonlocal reads
        reads += 1
        return b"x" * size

    with pytest.raises(click.ClickException, match="line 1 of s is longer than 64 MiB"):
        list(read_lines(read, "s", RecordFormat()))
    assert reads <= MAX_RECORD_BYTES // (1 << 20) + 1


def test_a_file_that_no_broker_would_take_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(MAX_RECORD_BYTES + 1)
    with pytest.raises(click.ClickException, match="larger than 64 MiB"):
        list(read_file(tmp_path / "huge", RecordFormat()))


def test_lines_that_come_in_pieces_are_whole() -> None:
    reads = iter([b"on", b"e\ntw", b"o\n", b"three", b""])
    portions: list[InputChunk] = list(read_lines(lambda _: next(reads), "s", RecordFormat()))
    assert [portion.records for portion in portions] == [[b"one"], [b"two"], [b"three"]]
    assert [portion.location(0) for portion in portions] == [f"line {number} of s" for number in (1, 2, 3)]


class Keyboard:
    """A pipe into which two lines and a half were typed; then Ctrl-C is pressed while more is waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, typed: bytes) -> None:
        reader, self._writer = os.pipe()
        os.write(self._writer, typed)
        self.stream = open(reader, "rb")  # noqa: PTH123, SIM115
        monkeypatch.setattr("grete._cli.records.produce._standard_input", lambda: self.stream)
        monkeypatch.setattr("grete._cli.terminal.interrupt.select.select", self._select)

    def _select(self, *streams: list[BinaryIO]) -> None:
        if select([self.stream], [], [], 0) == ([], [], []):
            signal.raise_signal(signal.SIGINT)

    def close(self) -> None:
        self.stream.close()
        os.close(self._writer)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    keyboard = Keyboard(monkeypatch, b"one\ntwo\nhal")
    yield
    keyboard.close()


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_sends_the_whole_lines_that_were_read() -> None:
    result = call("orders")
    assert (result.exit_code, result.output) == (0, "2 records written to orders, 1 partition\n")
    assert sent() == [b"one", b"two"]


@pytest.mark.usefixtures("keyboard")
def test_a_second_ctrl_c_gives_up_and_says_so() -> None:
    FakeProducer.interrupts = 1
    result = call("orders")
    assert result.exit_code == 1
    assert "given up: 2 records are not acknowledged" in result.output
    assert FakeProducer.latest.closed


def test_the_first_ctrl_c_does_not_disturb_what_is_under_way() -> None:
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(Interrupted):
            interrupt.reading(BytesIO(b"more"))(10)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
