"""An app as a process of its own: `grete run` (or another command), its log lines, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.kafka.jars import ROOT
from tests.kafka.processes import end, spawn
from tests.kafka.waiting import eventually

Event = dict[str, Any]


class AppRun:
    """`grete run TARGET`, started at once; killed at the end of the `with` unless it has ended."""

    command = "run"

    def __init__(
        self, target: str, directory: Path, environment: Mapping[str, object], options: Sequence[str] = ()
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**os.environ, "PYTHONPATH": path, "SEEN_DIRECTORY": str(directory), "PYTHONUNBUFFERED": "1"}
        env |= {name: str(value) for name, value in environment.items()}
        number = len(list(directory.glob("*.err")))
        self._error_file = directory / f"run-{number}.err"
        with self._error_file.open("wb") as errors:
            grete = Path(sys.executable).parent / "grete"
            words: list[str | Path] = [grete, self.command, target, *options]
            self.process = spawn(words, cwd=ROOT, env=env, stdout=errors, stderr=subprocess.STDOUT)
        self.pid = self.process.pid

    @property
    def output(self) -> str:
        """What it wrote to stdout and stderr."""
        return self._error_file.read_text(errors="replace")

    @property
    def seen(self) -> list[Event]:
        """The lines that its handlers have logged so far."""
        return list(read_events(self.directory / f"{self.pid}.jsonl"))

    def until(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Wait for `condition`; fails at once when the process ends before."""

        def check() -> bool:
            if condition():
                return True
            if self.process.poll() is not None and not condition():
                raise AssertionError(f"ended with {self.process.returncode} before {what}\n{self.output[-8000:]}")
            return False

        eventually(check, seconds, lambda: f"{what}\n{self.output[-8000:]}")

    def until_event(self, name: str, seconds: float = 30.0, **fields: object) -> None:
        """Wait for a logged event with these fields."""

        def logged() -> bool:
            return any(row["event"] == name and fields.items() <= row.items() for row in self.seen)

        self.until(logged, seconds, f"event {name} {fields or ''}")

    def stop(self, sig: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        """Signal, wait, return the exit status."""
        os.kill(self.pid, sig)
        return self.wait(seconds)

    def wait(self, seconds: float) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {seconds:g} s\n{self.output[-8000:]}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        end(self.process)
        if kind is not None:
            print(f"--- output of process {self.pid}\n{self.output[-8000:]}", file=sys.stderr)


def read_events(path: Path) -> Iterator[Event]:
    """The whole lines of one process's file."""
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)
