"""Processes that report their health, and what comes of it."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from grete._swarm.node.report import Report, ReportReader
from tests.kafka.waiting import Deadline

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0

_BEGIN = """
import atexit, ctypes, os, signal, sys, threading, time
from grete import _native
from tests.unit.dispatcher_feed import DispatcherFeed
from tests.unit.reporting_process import threads

feed = DispatcherFeed(handler_timeout=0.2)
fd = {fd}
def start(interval=0.05, gil_probe=True):
    health = _native.Health(feed.dispatcher)
    health.report(fd, interval, gil_probe)
    return health
"""


def threads() -> set[str]:
    """The names of those threads of this process that report its health."""
    names = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            names.add((task / "comm").read_text().strip())
        except OSError:
            continue  # it has just ended
    return names & {"grete-health", "grete-gil-probe"}


def wakeups(name: str, pid: int | str = "self") -> int:
    """How often the process's thread of that name has slept."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found, status = (task / "comm").read_text().strip(), (task / "status").read_text()
        except OSError:
            continue  # it has just ended
        if found == name:
            return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return 0


class ReportPipe:
    """What comes through a pipe, as reports."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.all: list[Report] = []
        self._reader = ReportReader()

    def more(self, deadline: Deadline) -> bool:
        """Waits for some; False: the pipe has ended."""
        assert select.select([self.fd], [], [], deadline.left)[0], f"no report came after {self.all[-1:]}"
        data = os.read(self.fd, 1 << 20)
        self.all += [report for report in self._reader.feed(data) if isinstance(report, Report)]
        return bool(data)

    def until(self, condition: Callable[[Report], bool], what: str) -> Report:
        """The first report that comes from now on of which this is true."""
        deadline = Deadline(PATIENCE)
        seen = len(self.all)
        while True:
            for report in self.all[seen:]:
                if condition(report):
                    return report
            seen = len(self.all)
            assert not deadline.over, f"{what} was not reported: {self.all[-1]}"
            assert self.more(deadline), f"the pipe has ended before {what} was reported; {self.all[-1:]}"

    def next(self) -> Report:
        """The next one."""
        return self.until(lambda _: True, "anything")

    def to_the_end(self) -> None:
        """Reads until the pipe ends."""
        deadline = Deadline(PATIENCE)
        while self.more(deadline):
            pass


class ReportingProcess(ReportPipe):
    """A process that runs `code`, in which `start(interval)` makes a Health for its pipe and `feed` is a Feed."""

    def __init__(self, code: str) -> None:
        reader, writer = os.pipe()
        super().__init__(reader)
        script = _BEGIN.format(fd=writer) + textwrap.dedent(code)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],  # it forks with threads, knowingly
            cwd=ROOT,
            pass_fds=[writer],
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(writer)

    def ends(self) -> tuple[int, str]:
        """Its status and what it has written to stderr, once it has ended by itself."""
        _, stderr = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, stderr

    def close_pipe(self) -> None:
        """The reading end is closed."""
        os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.communicate()
        if self.fd >= 0:
            os.close(self.fd)
