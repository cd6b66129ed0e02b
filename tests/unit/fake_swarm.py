"""A swarm without processes, for tests of a swarm's state and metrics."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grete._swarm.net.server import Server
from grete._swarm.node.report import GroupMembership, LaneCounts, OldestJob, OverdueJob, Report
from grete._swarm.policy.node_state import NodeState, Phase
from grete._swarm.status.snapshot import Status, SupervisorInfo, snapshot


@dataclass
class FakeManager:
    """What is read of a Manager."""

    nodes: Sequence[NodeState] = field(default_factory=list)
    stopping: bool = False
    quieted: bool = False
    rolling: bool = False
    exit_status: int | None = None
    waiting: Mapping[int, str] = field(default_factory=dict)

    def wait_causes(self, now: float) -> Mapping[int, str]:
        return self.waiting


def report(**fields: object) -> Report:
    """A healthy node's."""
    healthy: dict[str, object] = {
        "seq": 3,
        "uptime": 3.0,
        "ready": True,
        "quiet": False,
        "stopping": False,
        "gil_wait": 0.004,
        "loop_wait": None,
        "rss": 100 << 20,
        "pss": None,
        "groups": (GroupMembership("shop", "stable", 2.0, True, 4, 3, "host-0"),),
        "lanes": LaneCounts(idle=3, ready=0, running=1, paused=0, failed=0, leaving=0),
        "lag": 1200,
        "oldest": OldestJob("Orders.consume", "orders", 3, 12.5, False),
        "overdue": (),
        "stalled": (),
        "failed": (),
        "jobs": 1000,
        "records": 100_000,
        "failures": 0,
        "dead_letters": 0,
        "workers": 5,
        "dropped": 0,
    }
    return Report(**{**healthy, **fields})  # type: ignore[arg-type]


def overdue(seconds: float = 312.5) -> OverdueJob:
    """A job beyond its limit."""
    return OverdueJob("Orders.consume", "orders", 3, seconds, 300.0)


def ready_node(number: int = 0, now: float = 100.0, **fields: object) -> NodeState:
    """A node that works since ten seconds. Its process is this one."""
    return NodeState(
        number,
        Phase.READY,
        since=now - 8,
        pid=os.getpid(),
        forked_at=now - 10,
        last_report=report(**fields),
        last_report_at=now - 0.5,
        ready_since=now - 8,
    )


def status(*nodes: NodeState, now: float = 100.0, **flags: Any) -> Status:
    """The status of these nodes at second 100; the supervisor started at second 40."""
    return snapshot(SupervisorInfo("shop", 40.0), FakeManager(nodes, **flags), now)


def drive(server: Server, until: Callable[[], object], seconds: float = 10.0) -> None:
    """The supervisor's loop, as far as a server is concerned, until the condition is true."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "the server does not do it"
        select.select([server.fd], [], [], 0.002)
        server.handle_events(server.fd, select.EPOLLIN)


def talk(server: Server, client: socket.socket, sent: bytes = b"", *, half_close: bool = False) -> bytes:
    """Sends, and gives all that comes until the server closes."""
    client.setblocking(False)
    received = bytearray()
    over = []

    def step() -> bool:
        while True:
            try:
                data = client.recv(65536)
            except BlockingIOError:
                return False
            except ConnectionError:
                over.append("reset")
                return True
            received.extend(data)
            if not data:
                return True

    if sent:
        client.sendall(sent)
    if half_close:
        client.shutdown(socket.SHUT_WR)
    drive(server, step)
    client.close()
    assert not over, "the connection was reset, and the answer may be lost"
    return bytes(received)
