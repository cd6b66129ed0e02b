"""`grete dev` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.kafka.jars import ROOT
from tests.kafka.processes import end, spawn
from tests.kafka.waiting import eventually


class DevRun:
    """`grete dev WORDS --port 0`, started at once; killed at the end of the `with` unless it has ended.

    `prefix`: words of a command that runs it, for example to set a limit.
    """

    def __init__(
        self,
        directory: Path,
        *words: str | Path,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        number = len(list(directory.glob("dev-*.out")))
        self._output_file = directory / f"dev-{number}.out"
        python_path = os.pathsep.join([str(directory), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**os.environ, "PYTHONPATH": python_path, "PYTHONUNBUFFERED": "1", **(environment or {})}
        command = [*prefix, sys.executable, "-m", "grete", "dev", "--port", str(port), *map(str, words)]
        with self._output_file.open("wb") as output:
            self.process = spawn(command, cwd=directory, env=env, stdout=output, stderr=subprocess.STDOUT)
        self.pid = self.process.pid

    @property
    def output(self) -> str:
        """What it wrote to stdout and stderr."""
        return self._output_file.read_text(errors="replace")

    @property
    def bootstrap_servers(self) -> str:
        """The addresses that it prints, once it has started."""

        def announced() -> re.Match[str] | None:
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}\n{self.output[-8000:]}")
            return re.search(r"^brokers: (\S+)\n", self.output, re.MULTILINE)

        found = eventually(announced, 30, lambda: self.output[-8000:])
        assert found is not None
        return found.group(1)

    def until(self, text: str, seconds: float = 30.0, times: int = 1) -> None:
        """Waits until the output has `text`, so many times."""
        eventually(lambda: self.output.count(text) >= times, seconds, lambda: f"{text!r} in\n{self.output[-8000:]}")

    def stop(self, sig: int = signal.SIGINT, seconds: float = 30.0) -> int:
        """Signals the process alone, waits, returns the exit status."""
        os.kill(self.pid, sig)
        return self.wait(seconds)

    def wait(self, seconds: float = 30.0) -> int:
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
