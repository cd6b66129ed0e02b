"""What the service manager hears, on a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from grete._swarm.policy.node_state import Phase
from grete._swarm.sd_notify import SystemdNotifier
from tests.unit.fake_swarm import FakeManager, ready_node


class Systemd:
    """The other end."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        lines: list[str] = []
        while True:
            try:
                lines += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return lines


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "path" else f"@grete-test-{os.getpid()}"


@pytest.fixture
def systemd(address: str) -> Iterator[Systemd]:
    one = Systemd(address)
    yield one
    one.socket.close()


def made(address: str, **more: str) -> SystemdNotifier:
    environment = {"NOTIFY_SOCKET": address, **more, "HOME": "/"}
    notify = SystemdNotifier.from_environment(environment)
    assert environment == {"HOME": "/"}, "nodes do not speak for the service"
    return notify


def test_ready_when_all_are_ready_and_not_before(systemd: Systemd, address: str) -> None:
    notify = made(address)
    assert notify.active
    manager = FakeManager([ready_node(0), ready_node(1)])
    manager.nodes[1].phase = Phase.STARTING
    notify.tick(1.0, manager)
    assert systemd.heard() == ["STATUS=1 of 2 nodes ready"]
    notify.tick(2.0, manager)
    assert systemd.heard() == [], "nothing new"
    manager.nodes[1].phase = Phase.READY
    notify.tick(3.0, manager)
    assert systemd.heard() == ["STATUS=2 of 2 nodes ready", "READY=1"]
    manager.nodes[1].phase, manager.nodes[1].last_death = Phase.BACKOFF, "killed by SIGSEGV"
    notify.tick(4.0, manager)
    assert systemd.heard() == ["STATUS=1 of 2 nodes ready; node 1 starts again soon (killed by SIGSEGV)"]
    manager.nodes[1].phase = Phase.READY
    notify.tick(5.0, manager)
    assert systemd.heard() == ["STATUS=2 of 2 nodes ready"], "ready is said once"
    assert notify.deadline() is None
    notify.close()


def test_a_reload_is_over_when_the_rolling_restart_is(systemd: Systemd, address: str) -> None:
    notify = made(address)
    manager = FakeManager([ready_node(0)])
    notify.reloading(0.5)
    assert systemd.heard() == [], "what is not ready yet cannot reload"
    notify.tick(1.0, manager)
    systemd.heard()
    manager.rolling = True
    notify.reloading(12.5)
    assert systemd.heard() == ["RELOADING=1", "MONOTONIC_USEC=12500000"]
    notify.tick(13.0, manager)
    assert systemd.heard() == ["STATUS=1 of 1 node ready; restarting one after the other"]
    manager.rolling = False
    notify.tick(14.0, manager)
    assert systemd.heard() == ["STATUS=1 of 1 node ready", "READY=1"]
    # One that fails is over, too; systemd must not wait forever.
    manager.nodes[0].phase = Phase.NOT_READY
    notify.reloading(15.0)
    notify.tick(15.5, manager)
    assert systemd.heard()[2:] == ["STATUS=0 of 1 node ready", "READY=1"]
    notify.close()


def test_stopping_is_said_once_and_ends_the_rest(systemd: Systemd, address: str) -> None:
    notify = made(address)
    manager = FakeManager([ready_node(0)], stopping=True)
    notify.stopping()
    notify.stopping()
    assert systemd.heard() == ["STOPPING=1", "STATUS=stopping"]
    notify.tick(1.0, manager)
    notify.reloading(2.0)
    assert systemd.heard() == ["STATUS=stopping, 1 node left"]
    notify.close()


@pytest.mark.parametrize(
    ("period", "fed_at"),
    [
        # At the last tick that is in time for half of the period, and no sooner.
        (30.0, [1.0, 16.0, 31.0]),
        (5.0, [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0, 19.0, 21.0, 23.0, 25.0, 27.0, 29.0, 31.0]),
    ],
)
def test_the_watchdog_is_fed_at_the_ticks_that_are_there_anyway(
    systemd: Systemd, address: str, period: float, fed_at: list[float]
) -> None:
    notify = made(address, WATCHDOG_USEC=str(int(period * 1e6)), WATCHDOG_PID=str(os.getpid()))
    manager = FakeManager([ready_node(0)])
    found = []
    for now in range(1, 32):
        notify.tick(float(now), manager)
        if "WATCHDOG=1" in systemd.heard():
            found.append(float(now))
        assert notify.deadline() is None
    assert found == fed_at
    notify.close()


def test_a_short_watchdog_has_wakeups_of_its_own(systemd: Systemd, address: str) -> None:
    notify = made(address, WATCHDOG_USEC="1000000")
    manager = FakeManager([ready_node(0)])
    notify.tick(1.0, manager)
    assert notify.deadline() == 1.5
    notify.tick(1.5, manager)
    assert "WATCHDOG=1" in systemd.heard()
    assert notify.deadline() == 2.0
    notify.close()


def test_a_watchdog_of_another_process_is_not_ours(systemd: Systemd, address: str) -> None:
    for more in ({"WATCHDOG_PID": "1", "WATCHDOG_USEC": "1000000"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}):
        notify = made(address, **more)
        notify.tick(1.0, FakeManager([ready_node(0)]))
        assert "WATCHDOG=1" not in systemd.heard()
        assert notify.deadline() is None
        notify.close()


def test_a_failed_notification_is_sent_again_later(
    systemd: Systemd, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    notify = made(address)
    manager = FakeManager([ready_node(0)])
    filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    filler.setblocking(False)
    filler.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
    with filler:
        while True:
            try:
                filler.send(b"x")
            except BlockingIOError:
                break
    notify.tick(1.0, manager)
    assert "READY=1" not in systemd.heard()
    notify.tick(2.0, manager)
    assert "READY=1" in systemd.heard()
    assert not caplog.records
    notify.close()


def test_a_missing_service_manager_is_only_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notify = made(str(tmp_path / "missing"))
    for now in (1.0, 2.0):
        notify.tick(now, FakeManager([ready_node(0)]))
    notify.reloading(3.0)
    notify.stopping()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    notify.close()
    assert notify.fds() == []


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative"])
def test_without_a_socket_all_of_it_is_nothing(address: str) -> None:
    notify = made(address)
    assert not notify.active
    assert notify.fds() == []
    notify.tick(1.0, FakeManager([ready_node(0)]))
    notify.reloading(1.0)
    notify.stopping()
    notify.close()
    assert notify.deadline() is None
