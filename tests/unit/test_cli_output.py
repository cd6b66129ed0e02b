"""What commands write to standard output: all of it, or an error, before anything is committed."""

from __future__ import annotations

import os
import pty
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from grete._cli import COMMANDS
from tests.unit.offline_command import OUTPUT, RECORDS

ROOT = Path(__file__).parents[2]
CONSUME = ("consume", "orders", "--group", "g", "--limit", str(len(RECORDS)))
FULL = "Error: standard output cannot be written: No space left on device\n"


class Printing:
    """Runs commands of `tests.unit.offline_command`, with or without a buffer of Python's."""

    def __init__(self, directory: Path, unbuffered: str) -> None:
        self._journal = directory / "journal"
        self._environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}

    def start(self, *words: str, shell: str = "", **options: Any) -> subprocess.Popen[bytes]:
        """The process; `shell`: redirections as a shell has them."""
        command = [sys.executable, "-m", "tests.unit.offline_command", str(self._journal), *words]
        if shell:
            command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
        given: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        } | options
        process: subprocess.Popen[bytes] = subprocess.Popen(command, cwd=ROOT, env=self._environment, **given)
        return process

    def run(self, *words: str, **options: Any) -> tuple[int, bytes, str]:
        """Status, output and errors."""
        with self.start(*words, **options) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out or b"", err.decode()

    @property
    def done(self) -> list[str]:
        """What the clients were asked to change."""
        return self._journal.read_text().splitlines() if self._journal.exists() else []


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def printing(request: pytest.FixtureRequest, tmp_path: Path) -> Printing:
    return Printing(tmp_path, request.param)


@pytest.fixture
def plain(tmp_path: Path) -> Printing:
    return Printing(tmp_path, "")


@pytest.fixture
def pipe() -> Iterator[tuple[FileIO, FileIO]]:
    """The end to read from, and the one to write to."""
    reader, writer = os.pipe()
    with FileIO(reader, "rb") as first, FileIO(writer, "wb") as second:
        yield first, second


def test_what_was_written_is_committed(printing: Printing) -> None:
    assert printing.run(*CONSUME) == (0, OUTPUT, "3,000 records, 1 partition\n")
    assert printing.done == ["subscribed", "committed 3000", "closed"]


def test_a_file_that_may_not_grow_is_an_error_and_nothing_is_committed(printing: Printing, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

    with (tmp_path / "out").open("wb") as out:
        status, _, said = printing.run(*CONSUME, stdout=out, preexec_fn=limit)
    assert printing.done == ["subscribed", "closed"]
    assert (status, said) == (1, "Error: standard output cannot be written: File too large\n")
    assert (tmp_path / "out").read_bytes() == OUTPUT[: 1 << 16]


def test_a_reader_that_goes_ends_the_command_at_once(printing: Printing, pipe: tuple[FileIO, FileIO]) -> None:
    with printing.start(*CONSUME, "--json", stdout=pipe[1]) as process:
        pipe[1].close()
        assert pipe[0].read(1) == b"{"
        pipe[0].close()
        assert process.stderr is not None
        assert (process.wait(60), process.stderr.read()) == (141, b"")
    assert printing.done == ["subscribed", "closed"]


def test_a_reader_that_goes_while_nothing_comes_ends_the_command(plain: Printing, pipe: tuple[FileIO, FileIO]) -> None:
    with plain.start("consume", "empty", "--group", "g", stdout=pipe[1]) as process:
        pipe[1].close()
        pipe[0].close()
        try:
            assert process.wait(60) == 141
        finally:
            process.kill()


def test_a_pipe_that_does_not_block_gets_everything(printing: Printing, pipe: tuple[FileIO, FileIO]) -> None:
    os.set_blocking(pipe[1].fileno(), False)
    with printing.start(*CONSUME, stdout=pipe[1]) as process:
        pipe[1].close()
        assert pipe[0].readall() == OUTPUT
        assert process.wait(60) == 0
    assert printing.done == ["subscribed", "committed 3000", "closed"]


@pytest.mark.parametrize(
    "words",
    [
        CONSUME,
        ("topics", "list"),
        ("topics", "list", "--json"),
        ("topics", "delete", "orders", "--yes"),
        ("info",),
        ("info", "--json"),
        ("--version",),
        ("--help",),
        *((name, "--help") for name in sorted(COMMANDS)),
    ],
    ids=" ".join,
)
def test_a_full_disk_is_one_line(plain: Printing, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        assert plain.run(*words, stdout=full) == (1, b"", FULL)


def test_a_full_disk_is_one_line_without_a_buffer_too(printing: Printing) -> None:
    with Path("/dev/full").open("wb") as full:
        assert printing.run("topics", "list", stdout=full) == (1, b"", FULL)
        assert printing.run("info", stdout=full) == (1, b"", FULL)


@pytest.mark.parametrize("words", [CONSUME, ("topics", "list"), ("topics", "delete", "orders", "--yes")], ids=" ".join)
def test_a_closed_output_is_refused_before_anything_is_done(plain: Printing, words: tuple[str, ...]) -> None:
    status, _, said = plain.run(*words, shell=">&-")
    assert (status, plain.done) == (1, [])
    assert said.startswith("Error: standard output is closed: ")


@pytest.mark.parametrize("words", [("info",), ("--help",), ("--version",)], ids=" ".join)
def test_a_closed_output_is_an_error_of_all_commands(plain: Printing, words: tuple[str, ...]) -> None:
    status, _, said = plain.run(*words, shell=">&-")
    assert (status, said.startswith("Error: standard output is closed: ")) == (1, True), said


def test_a_closed_input_is_refused(plain: Printing) -> None:
    status, _, said = plain.run("produce", "orders", "--bootstrap", "127.0.0.1:1", shell="<&-")
    assert status == 2
    assert "Error: standard input is closed: " in said
    assert "Traceback" not in said


def test_a_question_without_an_input_is_refused(plain: Printing) -> None:
    status, _, said = plain.run("topics", "delete", "orders", shell="<&-")
    assert (status, "add --yes" in said, plain.done) == (2, True, ["closed"])


def test_errors_need_no_place_to_go(plain: Printing) -> None:
    assert plain.run(*CONSUME, shell="2>&-") == (0, OUTPUT, "")


def on_a_terminal(command: list[str], **environment: str) -> str:
    """Runs a process whose standard output is a terminal; returns what it shows."""
    reader, writer = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | environment
    with FileIO(reader, "rb") as screen, FileIO(writer, "wb") as terminal:
        process = subprocess.Popen(command, cwd=ROOT, env=given, stdin=subprocess.DEVNULL, stdout=terminal)
        terminal.close()
        shown = b""
        with suppress(OSError):  # EIO: the process has ended
            while part := screen.read(1 << 16):
                shown += part
        assert process.wait(60) == 0
    return shown.decode()


def test_a_terminal_gets_a_drawn_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.unit.offline_command", str(tmp_path / "journal"), "topics", "list"]
    shown = on_a_terminal(command, TERM="xterm", COLUMNS="60")
    assert "\u2500" in shown
    assert "\x1b[1mTOPIC" in shown
    assert "topic-2999" in shown


def test_colors_are_for_terminals_and_not_with_no_color() -> None:
    script = (
        "from grete._cli.terminal import output; from grete._cli.terminal.table import Styled, Table; "
        "output.show(Styled('[x]', 'red'), Table(['STATE'], [[Styled('ready', 'green')]]))"
    )
    command = [sys.executable, "-c", script]
    colored = on_a_terminal(command, TERM="xterm")
    assert ("\x1b[31m[x]\x1b[0m" in colored, "\x1b[32mready\x1b[0m" in colored) == (True, True), colored
    assert "\x1b[3" not in on_a_terminal(command, TERM="xterm", NO_COLOR="1")
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"[x]\nSTATE\nready\n"


def test_piped_tables_are_plain_at_any_width(plain: Printing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("FORCE_COLOR", "1")
    status, out, _ = Printing(Path(plain._journal.parent), "").run("topics", "list")
    lines = out.decode().splitlines()
    assert (status, len(lines), out.isascii(), b"\x1b" in out) == (0, 3001, True, False)
    assert lines[:2] == ["TOPIC       PARTITIONS  REPLICATION FACTOR", "topic-0              0                   0"]


def test_an_apps_own_prints_are_its_affair(plain: Printing, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import sys\nassert sys.stdout is sys.__stdout__\nraise SystemExit(3)\n")
    for command in ("run", "swarm"):
        script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from grete._cli import main; main()"
        done = subprocess.run([sys.executable, "-c", script, command, "shop"], check=False, timeout=60)
        assert done.returncode == 3
