"""Python peers in environments of their own, made at first use: what they need does not go with ours."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

from .build import HERE, OUT


@cache
def python_of(benchmark: str, peer: str) -> Path:
    """The interpreter of build/bench/venv-PEER, with what benchmarks/BENCHMARK/requirements/PEER.txt says."""
    directory, wanted = OUT / f"venv-{peer}", HERE / benchmark / "requirements" / f"{peer}.txt"
    python, installed = directory / "bin" / "python", directory / "installed.txt"
    if not installed.exists() or installed.read_text() != wanted.read_text():
        print(f"installing {peer} into {directory}", file=sys.stderr, flush=True)
        _run([sys.executable, "-m", "venv", directory], peer)
        _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", wanted], peer)
        installed.write_text(wanted.read_text())
    return python


def _run(command: list[str | Path], peer: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{peer} cannot be installed:\n{done.stdout[-4000:]}")
