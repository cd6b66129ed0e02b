"""A supervisor with trivial nodes, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tests.kafka.jars import ROOT

Line = dict[str, Any]


class Run:
    """`tests.swarm.loop_process`, started at once and killed at the end; the kernel kills its nodes with it."""

    module = "tests.swarm.loop_process"

    def __init__(self, body: str, *words: str, before: Sequence[str] = (), **options: Any) -> None:
        """`options` for Popen, `before` is what it is started through."""
        self._lines: list[Line] = []
        self._came = threading.Condition()
        self._over = False
        command = [*before, sys.executable, "-m", self.module, body, *words]
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        environment = {**inherited, **options.pop("env", {})}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment, **options)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the supervisor, as it sees itself."""
        return int(self.until(supervisor=...)["supervisor"])

    def lines(self, **fields: object) -> list[Line]:
        """What was said that has these fields; `...` stands for any value."""
        with self._came:
            return [line for line in self._lines if _fits(line, fields)]

    def until(self, count: int = 1, seconds: float = 20.0, **fields: object) -> Line:
        """Wait for so many of these; returns the last of them."""
        with self._came:
            there = self._came.wait_for(lambda: len(self._found(fields)) >= count or self._over, seconds)
            found = self._found(fields)
            assert len(found) >= count, f"{count} x {fields} {'never came' if there else 'did not come'}: {self._lines}"
            return found[count - 1]

    def nodes(self, count: int) -> list[int]:
        """Their pids, once so many have said that they are up."""
        self.until(count, up=...)
        return [line["pid"] for line in self.lines(up=...)]

    def signal(self, signum: int) -> None:
        """To the supervisor."""
        self.process.send_signal(signum)

    def stop(self) -> int:
        """TERM; the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self, seconds: float = 20.0) -> int:
        """The exit status, when all has been said."""
        status = self.process.wait(seconds)
        self._reader.join(seconds)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _found(self, fields: dict[str, object]) -> list[Line]:
        return [line for line in self._lines if _fits(line, fields)]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._came:
                self._lines.append(json.loads(text))
                self._came.notify_all()
        with self._came:
            self._over = True
            self._came.notify_all()


def _fits(line: Line, fields: dict[str, object]) -> bool:
    return all(name in line and value in (..., line[name]) for name, value in fields.items())
