"""The control socket: who may ask, where it lies, what is in its way, and what is left of it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from grete._swarm.control import client as control_client
from grete._swarm.control import server as control_server
from grete._swarm.control import socket_path
from grete._swarm.control.client import ControlError
from grete._swarm.control.server import ControlServer
from grete.errors import ConfigError
from tests.unit.fake_swarm import drive, ready_node, status, talk


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory of our own; nothing of the real user's is read."""
    # Not below pytest's: a socket's path is short.
    with tempfile.TemporaryDirectory() as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setattr(socket_path, "directories", lambda environment, uid: [Path(runtime, "grete")])
        yield Path(runtime, "grete")


Opener = Callable[..., ControlServer]


@pytest.fixture
def opened(home: Path) -> Iterator[Opener]:
    """Opens servers, and closes them at the end. `done` of a server has the commands that it was given."""
    servers = []

    def make(setting: str = "auto", app: str = "shop") -> ControlServer:
        done: list[str] = []
        commands = {verb: lambda verb=verb: done.append(verb) for verb in ("stop", "quiet", "restart", "dump")}
        made = control_server.open_server(setting, app, lambda memory: status(ready_node(0), ready_node(1)), commands)
        assert made is not None
        made.done = done  # type: ignore[attr-defined]
        servers.append(made)
        return made

    yield make
    for made in servers:
        made.close()


def connect(server: ControlServer) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(server.path)
    return client


def asked(server: ControlServer, request: object) -> dict[str, Any]:
    answer = json.loads(talk(server, connect(server), json.dumps(request).encode() + b"\n"))
    assert isinstance(answer, dict)
    return answer


def test_it_lies_in_a_directory_of_our_own_and_goes_with_its_owner(opened: Opener, home: Path) -> None:
    server = opened(app="a shop / of ours")
    path = Path(server.path)
    assert path == home / f"a-shop-of-ours-{os.getpid()}.sock"
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(home.lstat().st_mode) == 0o700
    server.close()
    assert not path.exists()


def test_the_umask_is_what_it_was(opened: Opener) -> None:
    before = os.umask(0o022)
    try:
        opened()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_it_returns_the_status_and_runs_commands(opened: Opener, caplog: pytest.LogCaptureFixture) -> None:
    server = opened()
    with caplog.at_level("INFO", "grete"):
        status = asked(server, {"do": "status"})
        assert [node["state"] for node in status["nodes"]] == ["ready", "ready"]
        assert asked(server, {"do": "quiet"}) == {"done": "quiet"}
        assert asked(server, {"do": "restart"}) == {"done": "restart"}
    assert server.done == ["quiet", "restart"]  # type: ignore[attr-defined]
    (first, _) = [record for record in caplog.records if getattr(record, "event", "") == "swarm.command"]
    assert (first.command, first.requested_by) == ("quiet", os.getpid())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"do": "explode"}, "status, stop, quiet, restart, dump"),
        ({"do": ["status"]}, "status, stop"),
        ({}, "status, stop"),
        ([], "object"),
        ("status", "object"),
    ],
)
def test_what_it_does_not_know_it_says(opened: Opener, request_: object, says: str) -> None:
    assert says in asked(opened(), request_)["error"]


def test_other_users_are_shown_the_door(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened()
    monkeypatch.setattr(control_server, "credentials", lambda peer: (1, os.geteuid() + 4711, 1))
    assert talk(server, connect(server)) == b""
    monkeypatch.setattr(control_server, "credentials", lambda peer: (1, 0, 0))
    assert "nodes" in json.loads(talk(server, connect(server), b'{"do":"status"}\n'))


def test_none_is_none(home: Path) -> None:
    assert control_server.open_server(None, "shop", lambda memory: status(), {}) is None
    assert not home.exists()


def test_a_child_leaves_it_there(opened: Opener) -> None:
    server = opened()
    child = os.fork()
    if child == 0:
        try:
            server.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert Path(server.path).exists()
    assert "nodes" in asked(server, {"do": "status"})


def test_a_socket_of_another_process_stays(opened: Opener, home: Path, tmp_path: Path) -> None:
    server = opened()
    Path(server.path).unlink()
    Path(server.path).write_text("another supervisor's")
    server.close()
    assert Path(server.path).read_text() == "another supervisor's"


def leave_stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def test_what_killed_ones_left_is_replaced_and_swept(opened: Opener, home: Path) -> None:
    living = opened(app="living")
    leave_stale(home / "dead-1.sock")
    leave_stale(home / f"shop-{os.getpid()}.sock")
    (home / "note.sock").write_text("no socket")
    server = opened()
    assert "nodes" in asked(server, {"do": "status"})
    assert sorted(path.name for path in home.iterdir()) == sorted(
        [Path(living.path).name, Path(server.path).name, "note.sock"]
    )


def test_a_path_of_the_users_choice(opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_stale(tmp_path / "mine.sock")
    monkeypatch.chdir(tmp_path)
    server = opened("mine.sock")
    assert server.path == str(tmp_path / "mine.sock"), "found again after the App changes its directory"
    with pytest.raises(
        ConfigError, match=r"another swarm answers there: stop that one, or name another with --control"
    ):
        opened("mine.sock")
    os.chdir("/")
    server.close()
    assert not (tmp_path / "mine.sock").exists()


def test_one_that_is_too_busy_to_be_asked_is_there(tmp_path: Path) -> None:
    path = tmp_path / "busy.sock"
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        clients = []
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            clients.append(client)
            if client.connect_ex(str(path)):
                break
        assert socket_path.is_alive(path)
        with pytest.raises(ControlError, match="takes no more connections"):
            control_client.send_request(path, {"do": "status"})
        for client in clients:
            client.close()


def refused(setting: str) -> str:
    with pytest.raises(ConfigError) as caught:
        control_server.open_server(setting, "shop", lambda memory: status(), {})
    assert caught.value.setting == "control"
    assert "--control none" in str(caught.value)
    return str(caught.value)


def test_what_is_in_the_way_is_named(home: Path, tmp_path: Path) -> None:
    assert f"{tmp_path}/none/x.sock: No such file or directory; name another with" in refused(f"{tmp_path}/none/x.sock")
    (tmp_path / "file").write_text("x")
    assert "which is no socket: remove it, or name" in refused(f"{tmp_path}/file")
    assert "is no directory" in refused(f"{tmp_path}/file/x.sock") or "Not a directory" in refused(
        f"{tmp_path}/file/x.sock"
    )
    assert "at most 107" in refused("/" + "x" * 200)
    assert "no path" in refused("/tmp/x\0y")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "others may write to" in refused(f"{tmp_path}/open/x.sock")


def test_the_default_directory_has_to_be_ours_alone(home: Path, tmp_path: Path) -> None:
    home.mkdir(mode=0o755)
    assert "chmod 700 it, or name another with" in refused("auto")
    home.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    home.symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in refused("auto")
    home.unlink()
    home.write_text("x")
    assert "no directory" in refused("auto")
    home.unlink()
    if os.geteuid() == 0:
        home.mkdir(mode=0o700)
        os.chown(home, 4711, 4711)
        assert "belongs to user 4711, and we are user 0" in refused("auto")


@pytest.mark.skipif(os.geteuid() == 0 and not hasattr(os, "seteuid"), reason="root may write everywhere")
def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    where = Path("/proc/self") if os.geteuid() == 0 else tmp_path
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
    assert f"the control socket cannot be at {where}/x.sock: " in refused(f"{where}/x.sock")


def test_where_the_default_is(tmp_path: Path) -> None:
    uid = os.geteuid()
    runtime = tmp_path / "run"
    runtime.mkdir()
    assert socket_path.default_path("shop", {"XDG_RUNTIME_DIR": str(runtime)}, uid, 7) == runtime / "grete/shop-7.sock"
    # Without a usable one: not set, relative, gone, another user's, or too long for a socket.
    long = tmp_path / ("x" * 100)
    long.mkdir()
    for useless in ("", "run", str(tmp_path / "gone"), str(long)):
        at = socket_path.default_path("s" * 60, {"XDG_RUNTIME_DIR": useless}, uid, 7)
        assert at.name == f"{'s' * 40}-7.sock"
        assert at.parent in (Path(f"/run/user/{uid}/grete"), Path(f"/tmp/grete-{uid}"))
        assert len(os.fsencode(at)) <= socket_path.MAX_PATH_BYTES
    if uid == 0:
        os.chown(runtime, 4711, 4711)
        assert runtime not in socket_path.default_path("shop", {"XDG_RUNTIME_DIR": str(runtime)}, uid, 7).parents


def serving(server: ControlServer, stop: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=lambda: drive(server, stop.is_set, 30))
    thread.start()
    return thread


def test_requests_to_all_take_one_timeout_together(opened: Opener, home: Path) -> None:
    server = opened()
    stale = home / "dead-1.sock"
    leave_stale(stale)
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as rude:
        for one, name in ((silent, "silent"), (rude, "rude")):
            one.bind(str(home / name))
            one.listen(5)
        stop = threading.Event()
        thread = serving(server, stop)

        def be_rude() -> None:
            peer, _ = rude.accept()
            peer.recv(100)
            peer.sendall(b'{"half":')
            peer.close()

        other = threading.Thread(target=be_rude)
        other.start()
        try:
            status, none, late, half = control_client.fetch_statuses(
                [Path(server.path), stale, home / "silent", home / "rude"], timeout=0.5
            )
        finally:
            stop.set()
            thread.join()
            other.join()
    assert not isinstance(status, ControlError)
    assert status["nodes"][1]["memory"] is not None
    assert status["nodes"][1]["memory"]["rss"]
    assert isinstance(none, ControlError)
    assert none.gone
    assert "no process listens there any more" in str(none)
    assert str(late) == f"the supervisor does not answer within 0.5 s: process {os.getpid()} at {home / 'silent'}"
    assert str(half) == f"the supervisor at {home / 'rude'} gave half an answer"
    assert isinstance(late, ControlError)
    assert not late.gone


def test_a_refusal_is_an_error(opened: Opener) -> None:
    server = opened()
    stop = threading.Event()
    thread = serving(server, stop)
    try:
        with pytest.raises(ControlError, match='"do" is one of'):
            control_client.send_request(Path(server.path), {"do": "explode"})
        assert control_client.send_request(Path(server.path), {"do": "dump"}) == {"done": "dump"}
    finally:
        stop.set()
        thread.join()
    assert socket_path.discover(os.environ, os.geteuid()) == [Path(server.path)]


def test_processes_of_another_namespace_are_measured_over_there(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = opened()
    monkeypatch.setattr(control_client, "credentials", lambda peer: (0, 0, 0))
    requests = []
    answer = server._handle_request

    def noted(request: Mapping[str, object], pid: int) -> Mapping[str, object]:
        requests.append(request)
        return answer(request, pid)

    monkeypatch.setattr(server, "_handle_request", noted)
    stop = threading.Event()
    thread = serving(server, stop)
    try:
        control_client.fetch_statuses([Path(server.path)])
    finally:
        stop.set()
        thread.join()
    assert requests == [{"do": "status"}, {"do": "status", "memory": True}]


def test_a_stopped_supervisor_is_named_by_its_process(home: Path) -> None:
    """The kernel accepts the connection in its place: only the deadline shows it."""
    home.mkdir(mode=0o700)
    path = home / "stopped.sock"
    child = os.fork()
    if child == 0:
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
                listener.listen(5)
                os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            os._exit(0)
    try:
        _, how = os.waitpid(child, os.WUNTRACED)
        assert os.WIFSTOPPED(how)
        with pytest.raises(ControlError, match=f"does not answer within 0.1 s: process {child} at"):
            control_client.send_request(path, {"do": "status"}, timeout=0.1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_two_that_start_at_once_do_not_take_each_other_for_dead(home: Path) -> None:
    """Between bind and listen a socket refuses connections like one that no process holds any more."""
    home.mkdir(mode=0o700)
    between = socket.socket(socket.AF_UNIX)
    with socket_path._directory_lock(home) as first:
        assert first
        between.bind(str(home / "other-1.sock"))
        with socket_path._directory_lock(home) as second:
            assert not second
        listener = socket_path.listen(home / "shop-2.sock", private=True)
        assert (home / "other-1.sock").exists()
        with pytest.raises(ConfigError, match="just starting"):
            socket_path.listen(home / "other-1.sock", private=False)
    listener.close()
    between.close()


def test_no_wakeup_is_left_behind(opened: Opener) -> None:
    server = opened()
    asked(server, {"do": "status"})
    drive(server, lambda: server.deadline() is None)
    assert not select.select([server.fd], [], [], 0)[0]
