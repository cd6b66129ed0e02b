"""Runs one client as a process of its own, pinned, and reads the JSON lines that it prints."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.kafka.processes import end, spawn

from .build import ROOT
from .pinning import pinned


class ClientFailedError(Exception):
    """A client ended badly, or did not end at all."""


def run_client(
    command: Sequence[str], core: int, timeout: float, environment: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The JSON objects among the lines of its standard output."""
    with pinned(core):
        process = spawn(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    try:
        out, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        out, errors = process.communicate()
        raise ClientFailedError(f"no end after {timeout:.0f} s\n{_tail(errors)}") from None
    finally:
        if process.poll() is None:
            end(process)
    if process.returncode:
        raise ClientFailedError(f"exit status {process.returncode}\n{_tail(errors)}")
    lines = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
    if not lines:
        raise ClientFailedError(f"printed no result\n{_tail(errors)}")
    return lines


def _tail(text: bytes) -> str:
    return text.decode(errors="replace")[-2000:].strip()
