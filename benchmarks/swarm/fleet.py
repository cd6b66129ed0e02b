"""Processes that run one App together: one, several, or a swarm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.common.build import ROOT
from benchmarks.common.process import children
from benchmarks.common.run import ClientFailedError
from tests.kafka import eventually
from tests.kafka.processes import end, kill_group, spawn

GRETE = str(Path(sys.executable).with_name("grete"))
START_SECONDS = 60.0
STOP_SECONDS = 30.0
Note = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Processes to start. `nodes` 0: no swarm, `processes` times `grete run`."""

    app: str
    topic: str
    partitions: int
    group: str
    nodes: int = 0
    processes: int = 1
    workers: int = 1
    environment: Mapping[str, object] = field(default_factory=dict)

    @property
    def members(self) -> int:
        """Processes that consume."""
        return self.nodes or self.processes

    def command(self) -> list[str]:
        """Command line of one process."""
        target = f"benchmarks.swarm.apps.{self.app}:app"
        words = ["swarm", target, "--nodes", str(self.nodes), "--control", "none"] if self.nodes else ["run", target]
        return [GRETE, *words, "--workers", str(self.workers), "--log-level", "info"]


class Fleet:
    """Running processes. `roots` are those that were started: the supervisor is one of them."""

    def __init__(self, servers: str, plan: Plan, directory: Path, roots: list[subprocess.Popen[bytes]]) -> None:
        self._servers = servers
        self.plan = plan
        self.directory = directory
        self.roots = roots
        self._read = 0
        self._notes: list[Note] = []

    @property
    def notes(self) -> list[Note]:
        """All events noted so far, in the order in which they were written."""
        path = self.directory / "notes"
        if path.exists():
            with path.open("rb") as file:
                file.seek(self._read)
                lines = file.read().rpartition(b"\n")[0]
            self._read += len(lines) + bool(lines)
            self._notes += map(json.loads, lines.splitlines())
        return self._notes

    def named(self, event: str, **fields: object) -> list[Note]:
        """The notes of this event with these fields."""
        return [note for note in self.notes if note["event"] == event and fields.items() <= note.items()]

    def until(self, condition: Callable[[], object], seconds: float, what: str, first_wait: float = 0.05) -> None:
        """Waits for it; ClientFailedError if a process ends before, or it takes too long."""

        def check() -> bool:
            self.check()
            return bool(condition())

        try:
            eventually(check, seconds, what, first_wait=first_wait)
        except AssertionError as error:
            raise ClientFailedError(f"{error}\n{self._tail()}") from None

    def check(self) -> None:
        """ClientFailedError if one has ended."""
        for root in self.roots:
            if root.poll() is not None:
                raise ClientFailedError(f"ended with status {root.returncode}\n{self._tail()}")

    def until_shared(self, seconds: float = START_SECONDS) -> None:
        """Until each member of the group has as many partitions as the others."""
        admin = AdminClient({"bootstrap.servers": self._servers})
        group, share = self.plan.group, self.plan.partitions // self.plan.members

        def shared() -> bool:
            try:
                description = admin.describe_consumer_groups([group], request_timeout=2)[group].result(5)
            except KafkaException:  # no coordinator yet; asked too early, the question may also get lost
                return False
            held = [len(member.assignment.topic_partitions) for member in description.members]
            return held == [share] * self.plan.members

        what = f"{self.plan.members} members of {group} have {share} partitions each"
        self.until(shared, seconds, what, first_wait=0.3)

    @property
    def pids(self) -> list[int]:
        """PIDs of all processes; a supervisor is the first."""
        found = [root.pid for root in self.roots]
        return found + [pid for root in found for pid in children(root)] if self.plan.nodes else found

    def _tail(self) -> str:
        files = sorted(self.directory.glob("*.err"))
        return "\n".join(file.read_text(errors="replace")[-1500:] for file in files)[-3000:]


@contextmanager
def fleet(servers: str, plan: Plan) -> Iterator[Fleet]:
    """Started, and killed at the end."""
    with tempfile.TemporaryDirectory(prefix="grete-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        settings = {
            "SERVERS": servers,
            "TOPIC": plan.topic,
            "GROUP": plan.group,
            "DIRECTORY": name,
            **plan.environment,
        }
        environment = {
            name if name.startswith("GRETE_") else f"BENCH_{name}": str(value) for name, value in settings.items()
        }
        roots = []
        for number in range(plan.processes):
            with (directory / f"{number}.err").open("wb") as errors:
                process = spawn(
                    plan.command(), cwd=ROOT, env={**os.environ, **environment}, stdout=errors, stderr=errors
                )
            stack.callback(_stop, process)
            roots.append(process)
        yield Fleet(servers, plan, directory, roots)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Its group of consumers must be empty for the next one, so it may leave first."""
    try:
        kill_group(process, signal.SIGTERM)
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        end(process)
