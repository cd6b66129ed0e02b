"""A swarm without processes, for tests of what is told of one."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from grete.swarm.facts import NodeFacts, Phase
from grete.swarm.report import Group, Lanes, Oldest, Overdue, Report
from grete.swarm.server import Server
from grete.swarm.status import About, Status, snapshot


@dataclass
class FakeManager:
    """What is read of a Manager."""

    nodes: Sequence[NodeFacts] = field(default_factory=list)
    stopping: bool = False
    quieted: bool = False
    rolling: bool = False
    exit_status: int | None = None


def report(**fields: object) -> Report:
    """A healthy node's."""
    healthy: dict[str, object] = {
        "seq": 3,
        "uptime": 3.0,
        "steady": True,
        "quiet": False,
        "stopping": False,
        "gil_wait": 0.004,
        "rss": 100 << 20,
        "pss": None,
        "groups": (Group("shop", "stable", 2.0, True, 4, 3, "host-0"),),
        "lanes": Lanes(idle=3, ready=0, running=1, paused=0, leaving=0),
        "lag": 1200,
        "oldest": Oldest("Orders.consume", "orders", 3, 12.5, False),
        "overdue": (),
        "stalled": (),
        "jobs": 1000,
        "records": 100_000,
        "failures": 0,
        "dead_letters": 0,
        "workers": 5,
        "dropped": 0,
    }
    return Report(**{**healthy, **fields})  # type: ignore[arg-type]


def overdue(seconds: float = 312.5) -> Overdue:
    """A job beyond its limit."""
    return Overdue("Orders.consume", "orders", 3, seconds, 300.0)


def steady(number: int = 0, now: float = 100.0, **fields: object) -> NodeFacts:
    """A node that works since ten seconds. Its process is this one."""
    return NodeFacts(
        number,
        Phase.STEADY,
        since=now - 8,
        pid=os.getpid(),
        forked_at=now - 10,
        last_report=report(**fields),
        last_report_at=now - 0.5,
        steady_since=now - 8,
    )


def status(*nodes: NodeFacts, now: float = 100.0, **flags: bool) -> Status:
    """The status of these nodes at second 100; the supervisor started at second 40."""
    return snapshot(About("shop", 40.0), FakeManager(nodes, **flags), now)


def drive(server: Server, until: Callable[[], object], seconds: float = 10.0) -> None:
    """The supervisor's loop, as far as a server is concerned, until the condition is true."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "the server does not do it"
        select.select([server.fd], [], [], 0.002)
        server.ready(server.fd, select.EPOLLIN)


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
