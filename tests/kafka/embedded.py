"""Grete's embedded brokers as the cluster: all nodes in one process, which is no part of the tests' own."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from .cluster import KafkaCluster
from .jars import HERE, ROOT
from .node import NodeFailedError
from .ports import ReservedPort
from .processes import end, kill_group, spawn, stands_still
from .storage import RunDirectory
from .waiting import Deadline, eventually

VERSION = "4.3.0"
# As of Apache Kafka in `apache.ApacheCluster`, where the embedded brokers have the setting.
SETTINGS: dict[str, object] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "broker.session.timeout.ms": 3000,
    "message.max.bytes": 64 << 20,
    "log.retention.ms": -1,
    "log.cleaner.backoff.ms": 200,
}


@dataclass(eq=False)
class EmbeddedNode:
    """One of the brokers in the process."""

    id: int
    directory: Path
    cluster: EmbeddedCluster
    port: ReservedPort = field(default_factory=ReservedPort)
    stopped: bool = False

    @property
    def address(self) -> str:
        return f"{self.port.host}:{self.port.number}"

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The process, which the nodes share."""
        return self.cluster.process

    @property
    def running(self) -> bool:
        return not self.stopped and self.process is not None and self.process.poll() is None


class EmbeddedCluster(KafkaCluster):
    """Embedded brokers with their data on disk.

    Signals to the only node go to the process. With several nodes, they reach one broker in it: SIGKILL and SIGTERM
    stop the broker, SIGSTOP and SIGCONT let it hang and go on.
    """

    def __init__(self, nodes: int = 1, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(VERSION, nodes)
        settings = {**SETTINGS, "min.insync.replicas": min(nodes, 2), **(properties or {})}
        self._settings = {name: str(value) for name, value in settings.items()}
        self._advertised = self._settings.pop("advertised.listeners", "")
        self._directory: RunDirectory | None = None
        self.nodes: dict[int, EmbeddedNode] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def _open(self) -> None:
        self._directory = RunDirectory()
        for node in range(1, self._count + 1):
            self.nodes[node] = EmbeddedNode(node, self._directory.path, self)

    def _close(self) -> None:
        if self.process is not None:
            end(self.process)
            self._close_pipes()
        for node in self.nodes.values():
            node.port.release()
        if self._directory is not None:
            self._directory.remove()

    def start(self, node: int) -> None:
        if self.nodes[node].running:
            raise RuntimeError(f"node {node} runs already")
        if self._runs():
            self._call("start_broker", broker=node)
        else:
            self._launch()
        self.nodes[node].stopped = False

    def group_epochs(self, group: str) -> list[int]:
        found = (re.search(r"epoch (\d+) begins", line) for line in self._group_lines(group))
        return [int(epoch[1]) for epoch in found if epoch is not None]

    def start_all(self) -> None:
        for node in self.nodes.values():
            if not node.running:
                self.start(node.id)

    def stop(self, node: int, timeout: float = 30.0) -> None:
        if self._count > 1:
            self._stop_broker(node)
        elif self.process is not None:
            kill_group(self.process, signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                end(self.process)
                raise NodeFailedError(f"the broker did not stop within {timeout:g} s\n{self.log(1)}") from None

    def kill(self, node: int, sig: int = signal.SIGKILL) -> None:
        if self._count > 1:
            self._signal_broker(node, sig)
        elif self.process is not None and sig == signal.SIGKILL:
            end(self.process)
        elif self.process is not None:
            process = self.process
            kill_group(process, sig)
            if sig == signal.SIGSTOP:
                eventually(lambda: process.poll() is not None or stands_still(process.pid), 30.0, "it stands still")

    def log(self, node: int) -> str:
        path = self.nodes[node].directory / "stderr.log"
        # The nodes share one log; the first has it.
        return path.read_text(errors="replace") if node == min(self.nodes) and path.exists() else ""

    def generations(self, group: str) -> list[int]:
        found = (line.partition(f"group {group}: generation ")[2] for line in self._all_logs().splitlines())
        return [int(rest.split()[0]) for rest in found if rest]

    def active_controller(self) -> int:
        return next(node.id for node in self.nodes.values() if node.running)

    def elect_preferred(self, topic: str) -> None:
        for partition, leader in self.admin.leaders(topic).items():
            preferred = self.admin.preferred_leaders(topic)[partition]
            if leader != preferred and self.nodes[preferred].running:
                self._call("move_leader", topic=topic, partition=partition, broker=preferred)

    def _signal_broker(self, node: int, sig: int) -> None:
        if sig == signal.SIGSTOP:
            self._call("suspend_broker", broker=node)
        elif sig == signal.SIGCONT:
            self._call("resume_broker", broker=node)
        else:
            self._stop_broker(node)

    def _stop_broker(self, node: int) -> None:
        self._call("stop_broker", broker=node)
        self.nodes[node].stopped = True

    def _runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _launch(self) -> None:
        assert self._directory is not None
        self._close_pipes()
        path = self._directory.path
        settings = {
            "ports": [node.port.number for node in self.nodes.values()],
            "advertised_ports": [int(self._advertised.rpartition(":")[2])] if self._advertised else [],
            "data": str(path / "data"),
            "settings": self._settings,
        }
        # By its path, without the packages that tests import: it starts in a tenth of a second.
        command = [sys.executable, "-P", str(HERE / "embedded_process.py"), json.dumps(settings)]
        with (path / "stderr.log").open("ab") as errors:
            self.process = spawn(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self._answer()

    def _call(self, command: str, **arguments: object) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, arguments]).encode() + b"\n")
        self.process.stdin.flush()
        self._answer()

    def _answer(self, seconds: float = 30.0) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        line, deadline = b"", Deadline(seconds)
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], deadline.left)
            part = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not part:
                raise NodeFailedError(f"the brokers did not answer\n{self.broker_log_tail()}")
            line += part
        error = json.loads(line)
        if error is not None:
            raise NodeFailedError(f"{error}\n{self.broker_log_tail()}")

    def _close_pipes(self) -> None:
        pipes: list[IO[bytes] | None] = [] if self.process is None else [self.process.stdin, self.process.stdout]
        for pipe in pipes:
            if pipe is not None:
                pipe.close()
