"""Numbers, times and directories that a command cannot use: one line each, and nothing is connected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from grete._cli import main
from grete._cli.param_ranges import MOMENT, POSITION, offset_of, time_of

ROOT = Path(__file__).parents[2]
HUGE = "99999999999999999999"
DIGITS = "9" * 5000
YEAR_ONE = "0001-01-01"


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("consume", "t", "--from", HUGE), f'"{HUGE}" is out of range: the most is 9223372036854775807'),
        (("consume", "t", "--from", DIGITS), "is out of range"),
        (("consume", "t", "--from", YEAR_ONE), '"0001-01-01" is out of range: times are from 1970-01-01 UTC on'),
        (("consume", "t", "--from", "1969-12-31T23:59:59.999Z"), "times are from 1970"),
        (("consume", "t", "--partition", "2147483648"), "0<=x<=2147483647"),
        (("consume", "t", "--limit", HUGE), "1<=x<="),
        (("topics", "create", "t", "-p", "99999999999"), "1<=x<=2147483647"),
        (("topics", "create", "t", "-r", "99999"), "1<=x<=32767"),
        (("topics", "alter", "t", "-p", "99999999999"), "1<=x<=2147483647"),
        (("topics", "offsets", "t", "--at", YEAR_ONE), "times are from 1970"),
        (("topics", "list", "--timeout", "99999999999999h"), "a duration is at most 876000h"),
        (("groups", "reset", "g", "-t", "t", "--to", HUGE), "the most is 9223372036854775807"),
        (("groups", "reset", "g", "-t", "t", "--by", f"+{DIGITS}"), "is out of range"),
        (("groups", "reset", "g", "-t", "t", "--to", YEAR_ONE), "times are from 1970"),
        (
            ("groups", "reset", "g", "-t", "t:99999999999", "--to", "latest"),
            't: partition "99999999999" is out of range',
        ),
        (("groups", "delete-offsets", "g", "-y", "-t", f"t:0,{DIGITS}"), "is out of range"),
        (("dlq", "list", "t", "-p", "99999999999"), "0<=x<=2147483647"),
        (("dlq", "list", "t", "-n", HUGE), "1<=x<="),
        (("dlq", "list", "t", "--since", YEAR_ONE), "times are from 1970"),
        (("dlq", "list", "t", "--since", "99999999999999h"), "nor how long ago"),
        (("dlq", "list", "t", "--source", f"t:{DIGITS}"), "a source is TOPIC or TOPIC:PARTITION"),
        (("dlq", "show", "t", "99999999999", "0"), "0<=x<=2147483647"),
        (("dlq", "show", "t", "0", HUGE), "0<=x<=9223372036854775807"),
        (("dlq", "replay", "t", "-p", "0", "--offset", HUGE), "0<=x<=9223372036854775807"),
        (("dlq", "replay", "t", "--rate", f"{HUGE}/s"), "records per time"),
        (("dlq", "replay", "t", "--rate", f"1/{HUGE}h"), "a duration is at most 876000h"),
        (("dlq", "purge", "t", "-p", "99999999999"), "0<=x<=2147483647"),
        (("dlq", "purge", "t", "--before", YEAR_ONE), "times are from 1970"),
        (("run", "shop", "--max-messages", HUGE), "1<=x<=4294967295"),
        (("swarm", "shop", "--workers", HUGE), "1<=x<=10000"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_what_is_out_of_range_is_refused_before_anything_is_connected(words: tuple[str, ...], says: str) -> None:
    result = call(*words, *(("--bootstrap", "127.0.0.1:1") if words[0] not in ("run", "swarm") else ()))
    assert (result.exit_code, says in result.output) == (2, True), result.output
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--shutdown-timeout", "99999999999999h"), "shutdown_timeout (from command line): a duration is at most"),
        (("-k", f"fetch.min.bytes={HUGE}"), "a whole number"),
    ],
)
def test_what_an_app_cannot_use_is_refused(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "ranged.py").write_text("import grete\napp = grete.App('ranged')\n@app.consumer('t')\ndef f(m): ...\n")
    script = "from grete._cli import main; main(prog_name='grete')"
    for command in ("run", "swarm"):
        line = [sys.executable, "-c", script, command, "ranged", "--bootstrap", "127.0.0.1:1", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (1, True, False), done.stderr


@given(st.text(max_size=30) | st.integers().map(str) | st.datetimes().map(str))
def test_any_text_is_an_offset_a_time_neither_or_out_of_range(text: str) -> None:
    for understand in (offset_of, time_of):
        try:
            understand(text)
        except ValueError as error:
            assert "is out of range: " in str(error)  # noqa: PT017
    for option in (MOMENT, POSITION):
        try:
            option.convert(text, None, None)
        except click.BadParameter as error:
            assert error.message  # noqa: PT017


def test_offsets_are_read_whatever_zeros_they_have() -> None:
    assert [offset_of(text) for text in ("0", "00", "007", str((1 << 63) - 1), "-1", "1e3", "²", "")] == [
        0,
        0,
        7,
        (1 << 63) - 1,
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("command", ["run", "swarm", "info"])
def test_a_working_directory_that_is_gone_is_named(tmp_path: Path, command: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = (
        "import os, sys; from grete._cli import main; os.rmdir(os.getcwd()); "
        f"main([{command!r}, 'shop:app'], prog_name='grete')"
    )
    # -P: as in an installed command. Without it, Python 3.13.0 fails in each failed look-up of a module's attribute.
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=gone, capture_output=True, text=True, check=False, timeout=60
    )
    said = "Error: the working directory cannot be found (No such file or directory): it was deleted"
    assert (done.returncode, done.stderr.startswith(said)) == (1, True), done.stderr


@pytest.mark.parametrize("setting", ["-kbootstrap.servers=user:s3cr3t@host:1", "--bootstrap=user:s3cr3t@host:1"])
@pytest.mark.parametrize("words", [("info",), ("topics", "list"), ("consume", "t"), ("produce", "t")], ids=" ".join)
def test_a_login_in_an_address_is_refused_and_not_shown(words: tuple[str, ...], setting: str) -> None:
    result = call(*words, setting)
    assert (result.exit_code, "s3cr3t" in result.output) == (1, False), result.output
    assert 'Error: bootstrap.servers has a user or a password before an "@"' in result.output


def test_a_name_of_kafkas_in_the_environment_is_refused_with_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRETE_BOOTSTRAP", "127.0.0.1:1")
    result = call("topics", "list")
    assert result.exit_code == 1
    assert 'Error: environment variable GRETE_BOOTSTRAP: Grete has no setting "bootstrap": ' in result.output
    assert result.output.endswith("or GRETE_KAFKA_BOOTSTRAP_SERVERS [ConfigError]\n")
