"""A whole supervisor, asked from outside: `grete ps`, the probes, the service manager."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grete._swarm.control import client as control_client
from tests.kafka.waiting import eventually
from tests.swarm.supervisor_run import SupervisorRun

GRETE = [sys.executable, "-m", "grete"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[SupervisorRun]:
    with SupervisorRun(tmp_path) as made:
        yield made


def grete(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GRETE, *words], capture_output=True, text=True, timeout=60)


def test_a_life_as_it_is_seen_from_outside(run: SupervisorRun) -> None:
    first, second = run.until_ready()
    assert run.probe("/livez")[0] == 200
    status, body = run.probe("/readyz")
    assert (status, body["ready"], body["problems"]) == (200, 2, [])
    # A table for people.
    shown = grete("ps", "--control", str(run.control))
    assert shown.returncode == 0, shown.stderr
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert [row[:3] for row in rows[2:]] == [["0", str(first), "ready"], ["1", str(second), "ready"]]
    # Memory that is shared: together less than two.
    shared = json.loads(grete("info", "--swarm", "--json", "--control", str(run.control)).stdout)
    assert [process["pid"] for process in shared["processes"]] == [run.pid, first, second]
    assert 0 < shared["pss"] < shared["unshared_total"]
    # One dies, and is another.
    os.kill(first, signal.SIGKILL)
    eventually(lambda: run.status()["nodes"][0]["restarts"] == 1, 20, "it is replaced")
    node = run.status()["nodes"][0]
    assert (node["pid"] != first, node["deaths"], node["last_death"]) == (True, 1, "killed by SIGKILL")
    run.until_ready()
    # What is asked for is done, and logged with who asked.
    pids = [node["pid"] for node in run.status()["nodes"]]
    assert control_client.send_request(run.control, {"do": "restart"}) == {"done": "restart"}
    eventually(lambda: all(node["pid"] not in (*pids, None) for node in run.status()["nodes"]), 30, "both are new")
    assert run.lines(event="swarm.command", command="restart", requested_by=os.getpid())
    assert control_client.send_request(run.control, {"do": "stop"}) == {"done": "stop"}
    assert run.wait() == 0
    assert not run.control.exists()
    assert "there is no such socket" in grete("ps", "--control", str(run.control)).stderr


def test_nodes_have_nothing_of_what_answers(run: SupervisorRun) -> None:
    nodes = run.until_ready()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(run.control))
        os.kill(nodes[0], signal.SIGKILL)  # its successor is forked while a connection is open
        eventually(lambda: run.status()["nodes"][0]["restarts"] == 1, 20, "it is replaced")
        nodes = run.until_ready()

        def sockets(pid: int) -> set[str]:
            found = set()
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(str(link.readlink()))
            return {one for one in found if one.startswith(("socket:", "anon_inode:[eventpoll]"))}

        ours = sockets(run.pid)
        assert len(ours) >= 4
        for node in nodes:
            assert not sockets(node) & ours


def test_a_killed_one_leaves_a_socket_that_the_next_one_replaces(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path) as first:
        first.until(event="swarm.probes")
        with SupervisorRun(tmp_path) as second:
            assert "another swarm answers there: stop that one, or" in second.until(refused=...)["refused"]
            assert second.wait() == 1
        first.process.kill()
        first.process.wait()
    assert first.control.exists()
    with SupervisorRun(tmp_path) as third:
        third.nodes(2)
        assert len(third.status()["nodes"]) == 2
        assert third.stop() == 0


def test_who_asks_badly_costs_nothing(run: SupervisorRun) -> None:
    run.until_ready()
    (at,) = run.until(event="swarm.probes")["addresses"]
    host, _, port = at.rpartition(":")

    def descriptors() -> int:
        return len(list(Path(f"/proc/{run.pid}/fd").iterdir()))

    before = descriptors()  # and one more, maybe: what has asked last is still being seen off
    with contextlib.ExitStack() as open_:
        for number in range(60):
            client = open_.enter_context(socket.create_connection((host, int(port)), timeout=10))
            with contextlib.suppress(ConnectionError):
                client.sendall([b"", b"GET /li", b"\x16\x03\x01", b"x" * 9000][number % 4])
            other = open_.enter_context(socket.socket(socket.AF_UNIX))
            other.connect(str(run.control))
            with contextlib.suppress(ConnectionError):
                other.sendall([b"", b'{"do":', b"\xff\n", b"y" * 9000][number % 4])
            if number % 10 == 9:
                assert run.probe("/livez")[0] == 200
                assert run.states() == ["ready", "ready"]
        assert descriptors() <= before + 2 * 16
    eventually(lambda: descriptors() <= before, 20, "all connections are closed")
    control_client.send_request(run.control, {"do": "quiet"})
    run.until(2, signal="SIGTSTP")
    assert run.status()["quiet"]
    assert run.stop() == 0
    assert not run.lines(event="swarm.request.failed")


def test_the_service_manager_is_notified(tmp_path: Path) -> None:
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)

        def until(line: str) -> None:
            while line not in heard:
                heard.extend(systemd.recv(4096).decode().split("\n"))

        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"}
        with SupervisorRun(tmp_path, env=environment) as run:
            until("READY=1")
            assert "STATUS=2 of 2 nodes ready" in heard
            heard.clear()
            until("WATCHDOG=1")
            run.signal(signal.SIGHUP)
            until("RELOADING=1")
            assert any(line.startswith("MONOTONIC_USEC=") for line in heard)
            heard.clear()
            until("READY=1")
            assert run.stop() == 0
            until("STOPPING=1")
            lines = run.lines(notify=None)
            assert len(lines) == 4, "two nodes, and their successors"
            assert all(line["watchdog"] is None for line in lines)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"control": "/proc/self/x.sock"}, "the control socket cannot be at /proc/self/x.sock: "),
        (
            {"control": "/nowhere/x.sock"},
            "/nowhere/x.sock: No such file or directory; name another with --control PATH",
        ),
        ({"probes": "203.0.113.1:80"}, "the probes cannot listen at 203.0.113.1:80: Cannot assign requested address"),
    ],
)
def test_what_cannot_be_opened_is_refused_before_the_fork(tmp_path: Path, settings: dict[str, Any], says: str) -> None:
    with SupervisorRun(tmp_path, **settings) as run:
        assert says in run.until(refused=...)["refused"]
        assert run.wait() == 1
        assert not run.lines(up=...)
        assert not run.control.exists()
