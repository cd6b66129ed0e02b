"""Runs `grete` commands."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kafka import KafkaCluster

GRETE = str(Path(sys.executable).parent / "grete")


@dataclass(frozen=True)
class Done:
    """What became of a command."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its JSON, one object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def grete(kafka: KafkaCluster, *words: str, answer: str | None = None) -> Done:
    """`grete WORDS --bootstrap ...`, whose input is no terminal."""
    command = [GRETE, *words, "--bootstrap", kafka.bootstrap_servers]
    done = subprocess.run(command, input=answer or "", capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
