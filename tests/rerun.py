"""Runs pytest, and repeats up to `MOST` failed tests, once and one after the other.

A change must not wait for one unsteady test among thousands, and a defect of the change fails twice. The tests that
passed only when repeated are listed at the end: each of them is a defect of the product or of the test.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MOST = 3
NO_WORKERS = ("-n", "0")


def last_failed(directory: Path) -> list[str]:
    """Returns the ids of the tests that failed in the last run in `directory`."""
    try:
        return sorted(json.loads((directory / ".pytest_cache/v/cache/lastfailed").read_text()))
    except FileNotFoundError:
        return []


def run(arguments: list[str], directory: Path) -> int:
    """Returns the exit status of pytest: 0 as well where each of the failed tests passed when repeated."""
    pytest_command = [sys.executable, "-m", "pytest", *arguments]
    status = subprocess.run(pytest_command, cwd=directory, check=False).returncode
    failed = last_failed(directory)
    if status != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST:
        return status
    print("repeats", *failed, sep="\n", flush=True)
    if subprocess.run([*pytest_command, *NO_WORKERS, "--last-failed"], cwd=directory, check=False).returncode:
        return status
    print("unsteady, to be mended: these tests failed, and passed when repeated")
    print("\n".join(failed))
    return pytest.ExitCode.OK


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], Path.cwd()))
