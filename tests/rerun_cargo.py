"""Runs `cargo test`, and repeats up to `MOST` failed tests once, for the reason that `tests.rerun` gives."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.rerun import MOST

CARGO = os.environ.get("CARGO", "cargo")
# Names at the end of the output of a target whose tests failed.
FAILURES = re.compile(r"^failures:\n((?:    \S+\n)+)\ntest result: FAILED", re.MULTILINE)
# Arguments that select a target with failures, at the end of the whole output.
TARGET = re.compile(r"^    `(-p .+)`$", re.MULTILINE)


def failed_tests(output: str) -> list[tuple[list[str], list[str]]]:
    """Returns the arguments that select each failed target, and its failed tests. Empty: some failure has no names, as
    that of the compiler or of a target that was killed.
    """
    targets = [found.split() for found in TARGET.findall(output)]
    names = [found.split() for found in FAILURES.findall(output)]
    return list(zip(targets, names, strict=True)) if len(targets) == len(names) else []


def run(arguments: list[str]) -> int:
    """Returns the exit status of `cargo test`: 0 as well where each of the failed tests passed when repeated."""
    command = [CARGO, "test", "--no-fail-fast", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as test:
        assert test.stdout is not None
        lines = []
        for line in test.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    failed = failed_tests("".join(lines))
    names = [name for _, tests in failed for name in tests]
    if test.returncode == 0 or not 0 < len(names) <= MOST:
        return test.returncode
    print("repeats", *names, sep="\n", flush=True)
    for target, tests in failed:
        if subprocess.run([CARGO, "test", *target, "--", "--exact", *tests], check=False).returncode:
            return test.returncode
    print("unsteady, to be mended: these tests failed, and passed when repeated", *names, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
