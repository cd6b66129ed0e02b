"""Repetition of failed tests of cargo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PASSED = "\nrunning 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\n"
# As cargo prints it for two targets, of which the second has two failures.
FAILED = f"""{PASSED}
running 25 tests
....... 7/25
leading::one --- FAILED
failures:

---- leading::one stdout ----
panicked: failures:
    not a name

failures:
    leading::one
    leading::two

test result: FAILED. 23 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.11s

error: test failed, to rerun pass `-p grete-net --test loop_handle`
{PASSED}
failures:
    tests::three

test result: FAILED. 0 passed; 1 failed

error: 2 targets failed:
    `-p grete-net --test loop_handle`
    `-p grete-proto --lib`
"""
MANY = FAILED.replace("    leading::two\n", "    leading::two\n    leading::four\n")
KILLED = FAILED.replace("failures:\n    tests::three\n", "signal: 9, SIGKILL: kill\n")
COMPILER = "error[E0425]: cannot find value\nerror: could not compile `grete-net`\n"

CARGO = """#!/bin/sh
echo "$@" >> calls
case "$*" in
*--exact*) exit $AGAIN ;;
*) cat output; exit $STATUS ;;
esac
"""


@pytest.mark.parametrize(
    ("output", "status", "again", "expected"),
    [
        (PASSED, 0, 0, 0),
        (FAILED, 101, 0, 0),
        (FAILED, 101, 101, 101),
        (MANY, 101, 0, 101),
        (KILLED, 101, 0, 101),
        (COMPILER, 101, 0, 101),
    ],
    ids=["passed", "unsteady", "broken", "too many", "killed", "compiler"],
)
def test_status(tmp_path: Path, output: str, status: int, again: int, expected: int) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text(CARGO)
    cargo.chmod(0o755)
    (tmp_path / "output").write_text(output)
    values = {"CARGO": str(cargo), "STATUS": str(status), "AGAIN": str(again), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.rerun_cargo", "--workspace"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | values, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == expected, done.stdout
    assert done.stdout.startswith(output)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "test --no-fail-fast --workspace"
    repeated = [
        "test -p grete-net --test loop_handle -- --exact leading::one leading::two",
        "test -p grete-proto --lib -- --exact tests::three",
    ]
    expected_calls = {FAILED: repeated[: 1 if again else 2]}.get(output, [])
    assert calls[1:] == expected_calls
    unsteady = done.stdout.partition("unsteady, to be mended")[2].split()[-3:]
    assert unsteady == (["leading::one", "leading::two", "tests::three"] if output == FAILED and not again else [])
