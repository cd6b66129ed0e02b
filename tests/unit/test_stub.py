"""The stub says what the native module is."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stub_matches_the_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "grete._native", "--mypy-config-file", str(ROOT / "pyproject.toml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
