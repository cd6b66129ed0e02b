"""Repetition of failed tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNSTEADY = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_unsteady(number):
    file = pathlib.Path(__file__).with_name(f"ran-{{number}}")
    ran = file.exists()
    file.touch()
    assert ran

def test_steady():
    pass
"""
BROKEN = "\ndef test_broken():\n    assert False\n"


@pytest.mark.parametrize(
    ("text", "workers", "status"),
    [
        (UNSTEADY.format(count=0), 0, 0),
        (UNSTEADY.format(count=2), 0, 0),
        (UNSTEADY.format(count=2), 2, 0),
        (UNSTEADY.format(count=4), 0, 1),
        (UNSTEADY.format(count=1) + BROKEN, 0, 1),
        ("def test(:", 0, 2),
    ],
    ids=["none", "two", "two with workers", "too many", "one broken", "no tests"],
)
def test_status(tmp_path: Path, text: str, workers: int, status: int) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(text)
    command = [sys.executable, str(ROOT / "tests/rerun.py"), "-q", "-p", "no:grete", "-n", str(workers)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stdout
    assert ("repeats\n" in done.stdout) == ("range(2)" in text or "test_broken" in text), done.stdout
    unsteady = done.stdout.partition("unsteady, to be mended")[2].count("test_unsteady")
    assert unsteady == (2 if "range(2)" in text else 0)
