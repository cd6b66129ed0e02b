"""One broker process: combined broker and controller."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import probe
from .jars import KafkaJars
from .ports import ReservedPort
from .processes import end, kill_group, spawn, stands_still
from .storage import logging_options
from .waiting import Deadline, eventually

STARTED = b"Kafka Server started"


class NodeFailedError(Exception):
    """The broker process ended, or was not ready in time; the text carries its log."""


class Node:
    """A broker's directory, ports and (while it runs) process."""

    def __init__(self, node_id: int, directory: Path, jars: KafkaJars, jvm: Sequence[str], cpus: Iterable[int] | None):
        self.id = node_id
        self.directory = directory
        self.port = ReservedPort()
        self.controller_port = ReservedPort()
        self.properties_file = directory / "node.properties"
        self.log_file = directory / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._jars = jars
        self._jvm = list(jvm)
        self._cpus = None if cpus is None else frozenset(cpus)
        self._log_start = 0
        directory.mkdir(parents=True)

    @property
    def address(self) -> str:
        return f"{self.port.host}:{self.port.number}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process; `wait_ready` says when it serves."""
        if self.running:
            raise RuntimeError(f"node {self.id} runs already")
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        command = ["java", *self._jvm, *logging_options(self._jars, self.directory)]
        command += ["-cp", self._jars.classpath, "kafka.Kafka", str(self.properties_file)]
        with (self.directory / "stdout.log").open("ab") as output:
            self.process = spawn(command, cwd=self.directory, cpus=self._cpus, stdout=output, stderr=subprocess.STDOUT)

    def wait_ready(self, deadline: Deadline) -> None:
        """Until the log says that it started, and it answers ApiVersions."""

        def started() -> bool:
            if not self.running:
                raise NodeFailedError(f"node {self.id} ended while it started\n{self.tail()}")
            return STARTED in self._fresh_log()

        def answers() -> bool:
            try:
                return bool(probe.api_versions(self.port.host, self.port.number))
            except (OSError, probe.ProbeError):
                return False

        eventually(started, deadline.left, lambda: f"start of node {self.id}\n{self.tail()}", first_wait=0.02)
        eventually(answers, deadline.left, lambda: f"an answer of node {self.id}\n{self.tail()}")

    def kill(self, sig: int = signal.SIGKILL) -> None:
        """Send `sig`; for SIGKILL, also wait until the process has gone, for SIGSTOP, until it stands still."""
        process = self.process
        if process is None:
            return
        if sig == signal.SIGKILL:
            end(process)
            return
        kill_group(process, sig)
        if sig == signal.SIGSTOP:
            # A thread on another core goes on until it is interrupted: on a busy machine it answers once more.
            eventually(lambda: not self.running or stands_still(process.pid), 30.0, f"node {self.id} stands still")

    def stop(self, timeout: float) -> None:
        """Let it shut down in order (SIGTERM); NodeFailedError when that takes longer than `timeout`."""
        if self.process is None:
            return
        kill_group(self.process, signal.SIGTERM)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            end(self.process)
            raise NodeFailedError(f"node {self.id} did not stop within {timeout:g} s\n{self.tail()}") from None

    def close(self) -> None:
        self.kill(signal.SIGKILL)
        self.port.release()
        self.controller_port.release()

    def log(self) -> str:
        """All that the broker has logged, over all of its starts."""
        parts = [path.read_text(errors="replace") for path in self._log_files() if path.exists()]
        return "".join(parts)

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log().splitlines()[-lines:])

    def _log_files(self) -> tuple[Path, Path]:
        return self.directory / "stdout.log", self.log_file

    def _fresh_log(self) -> bytes:
        if not self.log_file.exists():
            return b""
        with self.log_file.open("rb") as handle:
            handle.seek(self._log_start)
            return handle.read()
