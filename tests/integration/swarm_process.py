"""A swarm as a process: `grete swarm`, its events, its nodes, what they have open, and what it answers to."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.app_process import AppRun, Event, read_events
from tests.integration.commands import GRETE
from tests.integration.procfs import descriptors, environment, processes
from tests.kafka import KafkaCluster, eventually

WORKER = "tests.integration.apps.swarm_worker:app"
BAD = "tests.integration.apps.swarm_bad:app"
# What every process of a swarm has in its environment, to be found by.
MARK = "SWARM_MARK"


class SwarmRun(AppRun):
    """`grete swarm TARGET --nodes N --control PATH`, started at once; the kernel kills the nodes with it."""

    command = "swarm"

    def __init__(
        self,
        target: str,
        directory: Path,
        environment: Mapping[str, object],
        *options: str,
        nodes: int = 2,
    ) -> None:
        (directory / "faults").mkdir(parents=True, exist_ok=True)
        self.nodes = nodes
        self.control = directory / "control.sock"
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self._events_read = 0
        words = ["--nodes", str(nodes), "--control", str(self.control), *options]
        super().__init__(target, directory, {**environment, MARK: self.mark}, words)

    # What it says

    @property
    def events(self) -> list[Event]:
        """All that Grete has logged in any of its processes."""
        return list(read_events(self.directory / "events.log"))

    def named(self, name: str, **fields: object) -> list[Event]:
        """The events of this name with these fields."""
        return [row for row in self.events if row.get("event") == name and fields.items() <= row.items()]

    def until_named(self, name: str, seconds: float = 30.0, count: int = 1, **fields: object) -> list[Event]:
        """Wait for so many events; returns them."""
        self.until(lambda: len(self.named(name, **fields)) >= count, seconds, f"{count} x {name} {fields or ''}")
        return self.named(name, **fields)

    def notes(self, event: str, **fields: object) -> list[Event]:
        """What the handlers of all nodes, of now and before, have noted, in the order of time."""
        rows = [{**row, "pid": int(path.stem)} for path in self.directory.glob("*.jsonl") for row in read_events(path)]
        found = [row for row in rows if row["event"] == event and fields.items() <= row.items()]
        return sorted(found, key=lambda row: int(row["at"]))

    def until_event_of_any(self, event: str, seconds: float = 30.0) -> None:
        """Wait for a note of any node's handlers."""
        self.until(lambda: self.notes(event), seconds, f"note {event}")

    def has_worked(self, pid: int | None) -> bool:
        """Whether this process has finished a batch."""
        return pid is not None and any(row["event"] == "batch" for row in read_events(self.directory / f"{pid}.jsonl"))

    # What it answers

    def grete(self, *words: str) -> str:
        """What another `grete` command writes to stdout."""
        env = {**os.environ, "COLUMNS": "200"}
        return subprocess.run([GRETE, *words], env=env, capture_output=True, text=True, check=True, timeout=60).stdout

    def ask(self, seconds: float = 10.0, **request: object) -> dict[str, Any]:
        """One question to the control socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(str(self.control))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                part = connection.recv(1 << 16)
                if not part:
                    break
                answer += part
        found: dict[str, Any] = json.loads(answer)
        return found

    def status(self) -> dict[str, Any]:
        """What `grete ps --json` shows."""
        return self.ask(do="status")

    def rows(self) -> dict[int, dict[str, Any]]:
        """{node: its facts}; nothing before the socket is there."""
        try:
            return {row["id"]: row for row in self.status()["nodes"]}
        except (FileNotFoundError, ConnectionRefusedError):
            return {}

    def pids(self) -> dict[int, int]:
        """{node: pid} of the nodes that live."""
        return {node: row["pid"] for node, row in self.rows().items() if row["pid"]}

    def steady(self) -> set[int]:
        """The nodes that work."""
        return {node for node, row in self.rows().items() if row["state"] == "ready"}

    def until_ready(self, seconds: float = 60.0) -> dict[int, int]:
        """Wait until all nodes work; returns {node: pid}."""
        self.until(lambda: len(self.steady()) == self.nodes, seconds, "all nodes are steady")
        return self.pids()

    def until_replaced(self, node: int, pid: int, seconds: float = 60.0) -> int:
        """Wait until the node works again in another process; returns its pid."""

        def replaced() -> bool:
            row = self.rows().get(node)
            return row is not None and row["state"] == "ready" and row["pid"] not in (None, pid)

        self.until(replaced, seconds, f"node {node} is there again")
        return self.pids()[node]

    # What is done to it

    def harm(self, node: int, kind: str) -> None:
        """The next record that the node works on does this to it: see `apps.harm`."""
        fresh = self.directory / "faults" / f"new-{node}"
        fresh.write_text(kind)
        fresh.rename(self.directory / "faults" / f"node-{node}")

    def spare(self, node: int) -> bool:
        """Takes the order back; False: it was too late, the node has it."""
        try:
            (self.directory / "faults" / f"node-{node}").unlink()
        except FileNotFoundError:
            return False
        return True

    # What /proc says

    def children(self) -> dict[int, str]:
        """{pid: state} of the supervisor's children; Z is a zombie."""
        return {pid: state for pid, (parent, state) in processes().items() if parent == self.pid}

    def relatives(self) -> set[int]:
        """All processes that were started by it, however far away they have gone; the supervisor itself is left out."""
        mark = f"{MARK}={self.mark}".encode()
        return {pid for pid in processes() if pid != self.pid and mark in environment(pid)}

    def descriptors_at_rest(self, listeners: int = 1) -> Counter[str]:
        """The same when no client is connected; `listeners`: sockets that it has then, but for that of its name."""
        listeners += len(self.named("swarm.static"))
        eventually(lambda: self.descriptors()["socket"] == listeners, 10.0, lambda: f"rest: {self.descriptors()}")
        return self.descriptors()

    def descriptors(self) -> Counter[str]:
        """What the supervisor has open, by kind."""
        kinds: Counter[str] = Counter()
        for target in descriptors(self.pid).values():
            kind, colon, _ = target.partition(":")
            kinds[target if not colon or kind == "anon_inode" else kind] += 1
        return kinds


def start_worker(
    kafka: KafkaCluster,
    topic: str,
    directory: Path,
    *options: str,
    nodes: int = 2,
    kafka_settings: Mapping[str, object] | None = None,
    app: Mapping[str, object] | None = None,
    route: Mapping[str, object] | None = None,
    **environment: object,
) -> SwarmRun:
    """A swarm of `apps.swarm_worker`, whose group has the topic's name. Its limits are short unless given.

    The short session makes the group a classic one. A setting of None is left out.
    """
    quick: dict[str, object] = {
        "session.timeout.ms": 1500,
        "heartbeat.interval.ms": 200,
        "auto.commit.interval.ms": 200,
    }
    settings: dict[str, object] = {"workers": 2, "shutdown_timeout": "5s", **(app or {})}
    swarm: dict[str, object] = {"restart_backoff": "100ms", "ready_after": "1ms"}
    given = settings.get("swarm")
    settings["swarm"] = swarm | (given if isinstance(given, dict) else {})
    swarm_environment: dict[str, object] = {
        "SWARM_SERVERS": kafka.bootstrap_servers,
        "SWARM_TOPIC": topic,
        "SWARM_GROUP": topic.split(maxsplit=1)[0],
        "SWARM_KAFKA": json.dumps({k: v for k, v in (quick | dict(kafka_settings or {})).items() if v is not None}),
        "SWARM_APP": json.dumps(settings),
        "SWARM_ROUTE": json.dumps({"max_messages": 50, **(route or {})}),
    }
    return SwarmRun(WORKER, directory, swarm_environment | environment, *options, nodes=nodes)
