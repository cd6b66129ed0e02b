"""The command line, without a broker."""

import ast
import io
import json
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
import pytest
import rich.console
from click.testing import CliRunner, Result

import grete
from grete import _native
from grete._cli import COMMANDS, main, options
from grete._cli.terminal import message_format
from grete._cli.terminal.progress import Progress
from grete._cli.terminal.table import Table, format_table
from tests.unit.record_batches import Record, batch

ROOT = Path(__file__).parents[2]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, from which modules can be imported for the test's time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_the_version() -> None:
    assert call("--version").output == f"grete {grete.__version__}\n"


def test_the_overview_imports_no_command() -> None:
    script = (
        "import sys; from grete._cli import main; main(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Print a topic's messages" in done.stdout
    assert "'grete._cli.run'" not in done.stdout
    assert "'grete._cli.records.consume'" not in done.stdout


@pytest.mark.parametrize(
    "words", [("consume", "orders", "--group", "g", "--limit", "5"), ("topics", "list"), ("info",)]
)
def test_piped_output_loads_nothing_that_draws(words: tuple[str, ...], tmp_path: Path) -> None:
    script = (
        "import runpy, sys\n"
        "import grete._cli.records.produce, grete._cli.run, grete._cli.swarm, grete._cli.swarms.ps\n"
        "import grete._cli.dlq.replay\n"
        "try: runpy.run_module('tests.unit.offline_command', run_name='__main__')\n"
        "finally: print([name for name in sys.modules if name.partition('.')[0] == 'rich'], file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "journal"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert (done.stdout != "", done.stderr.splitlines()[-1]) == (True, "[]")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_has_help(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    below = sorted(command.commands) if isinstance(command, click.Group) else []
    for words in [[name, word] for word in below] or [[name]]:
        result = call(*words, "--help")
        assert result.exit_code == 0
        without = words in (["ps"], ["dev"], ["demo"], ["explain"], ["web", "password"]) or name == "schemas"
        assert ("--bootstrap" in result.output) != without, words


def test_tables_align_numbers_to_the_right_and_words_to_the_left() -> None:
    rows = [("orders", 5, None, [1, 2]), ("clicks-and-more", 12000, 7, [])]
    assert format_table(["TOPIC", "COUNT", "LAG", "REPLICAS"], rows).splitlines() == [
        "TOPIC            COUNT  LAG  REPLICAS",
        "orders               5    -  1,2",
        "clicks-and-more  12000    7  -",
    ]
    assert format_table(["TOPIC", "COUNT"], []) == "TOPIC  COUNT"


def test_a_row_is_one_line_and_moves_no_cursor() -> None:
    hostile = "\x1b[2J\r\nx"
    assert format_table(["GROUP", "TOPICS"], [(hostile, [hostile])]).splitlines() == [
        "GROUP             TOPICS",
        "\\x1b[2J\\x0d\\x0ax  \\x1b[2J\\x0d\\x0ax",
    ]


def test_a_terminal_gets_all_of_a_narrow_table_and_reads_no_markup() -> None:
    console = rich.console.Console(file=io.StringIO(), width=12, force_terminal=True, color_system=None)
    console.print(Table(["NAME", "LAG"], [("[bold]x[/] \x1b[2J", 7), ("a-name-that-is-long", None)]).draw())
    assert isinstance(console.file, io.StringIO)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())
    assert "\x1b" not in shown
    names = "".join(line[:8].strip() for line in shown.splitlines()[2:])
    assert names.replace(" ", "") == "[bold]x[/]\\x1b[2Ja-name-that-is-long"


def test_unknown_commands_are_refused() -> None:
    result = call("consum")
    assert (result.exit_code, "No such command" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("source", "target", "status", "says"),
    [
        ("", "missing:app", 2, 'there is no module "missing"'),
        ("", "shop", 2, '"shop" has no "app"'),
        ("import grete\nother = grete.App('x')", "shop", 2, "it has: shop:other"),
        ("app = 3", "shop:app", 2, "shop:app is a int, not a grete.App"),
        ("import not_there", "shop", 1, "No module named 'not_there'"),
        ("def f():\n    raise ValueError('broken')\nf()", "shop", 1, "ValueError: broken"),
        ("", "shop.py:app", 2, 'name the module, not the file: "shop:app"'),
        ("import grete\napp = grete.App('x')", "shop", 1, "has no consumer"),
        ("import grete\napp = grete.App('x', workers=0)", "shop", 1, "Error: shop.py:2: workers (from code): it is"),
        (
            "import grete\n\ngrete.Retry(backoff='fast')",
            "shop",
            1,
            "Error: shop.py:3: Retry(backoff='fast'): a backoff",
        ),
    ],
)
def test_what_cannot_run_is_explained(directory: Path, source: str, target: str, status: int, says: str) -> None:
    (directory / "shop.py").write_text(source)
    sys.modules.pop("shop", None)
    result = call("run", target, "--bootstrap", "127.0.0.1:1")
    sys.modules.pop("shop", None)
    assert (result.exit_code, says in result.output) == (status, True), result.output
    assert "importlib" not in result.output


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--from", "yesterday"], 2, "is no position: give earliest, latest, an offset"),
        (["--limit", "0"], 2, "--limit"),
        (["--kafka", "nonsense"], 2, "NAME=VALUE"),
        (["--kafka", "grop.id=x"], 1, 'did you mean "group.id"'),
        (["--bootstrap", "nohost"], 1, "nohost:9092 (from command line)"),
        (["--group", "g", "--from", "5"], 2, "--group decides"),
        (["--group", "g", "--until-end"], 2, "--group decides"),
    ],
)
def test_consume_refuses_what_makes_no_sense(directory: Path, arguments: list[str], status: int, says: str) -> None:
    result = call("consume", "orders", *arguments)
    assert (result.exit_code, says in result.output) == (status, True), result.output


RECORDS = [
    Record(7, "grün".encode(), b"k", 5, [("trace", b"1"), ("raw", b"\xff"), ("none", None)]),
    Record(8, b"\xff\x00bin", None, 6),
    Record(9, None, b"\xfe", 7),
    Record(10, b"bell\x07 line\nbreak\ttab", b"", 8),
]


def messages() -> grete.Messages:
    return _native._testing_decode(batch(RECORDS), "orders", 2)


def test_text_shows_values() -> None:
    lines = message_format.format_text(messages(), escape_control=True).decode().split("\n")
    assert lines == ["grün", "\\xff\\x00bin", "null", "bell\\x07 line\\x0abreak\ttab", ""]
    raw = message_format.format_text(messages(), escape_control=False)
    assert b"line\nbreak" in raw


def test_json_is_one_whole_object_a_line() -> None:
    rows = [json.loads(line) for line in message_format.format_json(messages()).splitlines()]
    assert rows == [
        {
            "topic": "orders",
            "partition": 2,
            "offset": 7,
            "timestamp": 5,
            "key": "k",
            "value": "grün",
            "headers": [
                {"name": "trace", "value": "1"},
                {"name": "raw", "value_base64": "/w=="},
                {"name": "none", "value": None},
            ],
        },
        {"topic": "orders", "partition": 2, "offset": 8, "timestamp": 6, "key": None, "value_base64": "/wBiaW4="},
        {"topic": "orders", "partition": 2, "offset": 9, "timestamp": 7, "key_base64": "/g==", "value": None},
        {
            "topic": "orders",
            "partition": 2,
            "offset": 10,
            "timestamp": 8,
            "key": "",
            "value": "bell\x07 line\nbreak\ttab",
        },
    ]


@pytest.mark.parametrize("total", [None, 3000])
def test_progress_writes_one_line_over_and_over(monkeypatch: pytest.MonkeyPatch, total: int | None) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    reader, writer = pty.openpty()
    with io.FileIO(reader, "rb") as screen, io.TextIOWrapper(io.FileIO(writer, "w"), "utf-8") as stream:
        progress = Progress(True, stream, total=total)
        for count in (1000, 2000, 3000):
            now[0] += 0.3
            progress.update(count, f"lag {5_000 - count:,}")
        progress.finish(3000)
        stream.close()
        parts = []
        with suppress(OSError):  # EIO: all was read
            while part := screen.read(4096):
                parts.append(part)
    written = b"".join(parts).decode()
    assert written.endswith("\x1b[?25h"), "the cursor is shown again"
    lines = [line.strip() for line in re.split(r"[\r\n]+|\x1b\[[0-9;?]*[A-Za-z]", written) if "/s" in line]
    assert list(dict.fromkeys(lines)) == ["2,000 messages, 3,333/s, lag 3,000", "3,000 messages in 0.9 s, 3,333/s"]
    assert written.count("\n") == 1, "all in one line, which stays"
    assert ("\u2501" in written) == (total is not None), "a bar needs a total"


def test_no_progress_without_a_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(False, stream)
    progress.update(1, "lag 1")
    progress.finish(1)
    assert stream.getvalue() == ""


def test_commands_need_no_generic_classes_of_click() -> None:
    # click.Choice is generic from 8.2 on, click.ParamType from 8.4 on, and other packages ask for older releases.
    subscripts = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "python" / "grete").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).startswith("click.")
    ]
    assert subscripts == []


def test_an_unknown_command_is_answered_with_the_most_similar_one() -> None:
    result = CliRunner().invoke(main, ["topic", "list"])
    assert result.exit_code == 2
    assert 'did you mean "topics"?' in result.output


def test_a_command_without_an_address_says_which_one_it_has_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setattr(options, "_DEFAULT_ADDRESS", "127.0.0.1:1")
    result = CliRunner().invoke(main, ["topics", "list", "--timeout", "200ms"])
    assert result.exit_code == 1
    assert (
        "no address is set, so 127.0.0.1:1 was asked: give --bootstrap, GRETE_KAFKA_BOOTSTRAP_SERVERS" in result.output
    )
    result = CliRunner().invoke(main, ["topics", "list", "--timeout", "200ms", "--bootstrap", "127.0.0.1:1"])
    assert "no address is set" not in result.output
