"""A whole supervisor as a process, and what it answers."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from grete._swarm.control import client
from grete._swarm.status.snapshot import Status
from tests.kafka.waiting import eventually
from tests.swarm.loop_run import Run
from tests.unit.exposition import Exposition


class SupervisorRun(Run):
    """With two nodes, a control socket and probes."""

    module = "tests.swarm.supervisor_process"

    def __init__(self, directory: Path, body: str = "obey", env: dict[str, str] | None = None, **settings: Any) -> None:
        self.control = directory / "control.sock"
        given = {
            "nodes": 2,
            "control": str(self.control),
            "probes": "127.0.0.1:0",
            "restart_backoff": "20ms",
            **settings,
        }
        super().__init__(body, json.dumps(given), env=env or {})

    def status(self) -> Status:
        (status,) = client.fetch_statuses([self.control])
        assert not isinstance(status, client.ControlError), status
        return status

    def states(self) -> list[str]:
        return [node["state"] for node in self.status()["nodes"]]

    def until_ready(self) -> list[int]:
        """Their pids."""
        self.until(event="swarm.probes")
        eventually(lambda: self.states() == ["ready", "ready"], 20, lambda: f"both are steady: {self.states()}")
        return [node["pid"] or 0 for node in self.status()["nodes"]]

    def probe(self, path: str) -> tuple[int, Any]:
        """Status and what the JSON says."""
        status, body = self.get(path)
        return status, json.loads(body)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        (at,) = self.until(event="swarm.probes")["addresses"]
        host, _, port = at.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            with client.makefile("rb") as file:
                head, _, body = file.read().partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def metrics(self) -> Exposition:
        """What a scrape gets."""
        status, body = self.get("/metrics")
        assert status == 200
        exposed = Exposition(body)
        exposed.check(["node"])
        return exposed
