"""The probes of an App in one process, with a broker that is not there."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grete
from grete import _native
from tests.kafka import eventually
from tests.unit.dispatcher_feed import DispatcherFeed
from tests.unit.probe_client import Response, probe_until, send_probe
from tests.unit.reporting_process import wakeups
from tests.unit.test_background_run import nothing_left_behind
from tests.unit.test_stop import NOWHERE, make, threads

pytestmark = pytest.mark.usefixtures("empty_directory")

ROOT = Path(__file__).parents[2]
HERE = "127.0.0.1:0"


@contextlib.contextmanager
def running(**settings: object) -> Iterator[tuple[grete.App, str]]:
    """An App that runs, and where it answers."""
    app = make(probes=HERE, **settings)
    where: list[str] = []
    app.monitor.subscribe("app.probes", lambda event: where.extend(event["addresses"]))
    app.start()
    try:
        (address,) = where
        yield app, address
    finally:
        app.stop()


@contextlib.contextmanager
def serving(feed: DispatcherFeed, **limits: Any) -> Iterator[str]:
    """A dispatcher that is fed by hand, and where it answers."""
    health = _native.Health(feed.dispatcher, "fed", **limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        health.serve([listener.fileno()])
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield address
    finally:
        health.close()


@pytest.mark.own_process
def test_an_app_answers_from_its_start_to_its_end() -> None:
    with nothing_left_behind(), running(workers=3) as (app, address):
        eventually(lambda: "grete-probes" in threads(), 30.0, "its thread")
        live = send_probe(address, "/livez")
        assert (live.status, live.body["ok"], live.body["app"], live.reasons) == (200, True, "stop", ["membership"])
        ready = send_probe(address, "/readyz")
        assert (ready.status, ready.body["ok"]) == (503, False)
        assert re.match(r'group "stop" is \w+ and has not been ready for \d+\.\d s', ready.body["why"])
        assert ready.body["problems"][0]["limit"] == 300.0
        everything = send_probe(address, "/")
        assert everything.status == 200
        assert everything.body["live"]["ok"]
        assert not everything.body["ready"]["ok"]
        assert everything.body["status"]["workers"] == 3
        assert everything.body["status"]["pid"] == os.getpid()
        metrics = send_probe(address, "/metrics")
        assert (metrics.status, metrics.type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        names = [line.split(" ")[0] for line in metrics.body.splitlines() if not line.startswith("#")]
        assert names == [line.split(" ")[0] for line in app.metrics().splitlines() if not line.startswith("#")]
        assert "grete_live 1\n" in metrics.body
        assert "grete_ready 0\n" in metrics.body
        assert "grete_gil_wait_seconds" in metrics.body
        assert send_probe(address, "/nothing").status == 404
        assert send_probe(address, "/livez", "POST").status == 405
        assert send_probe(address, "/metrics", "HEAD").body == ""
        app.quiet()
        assert "quiet" in send_probe(address, "/readyz").reasons
        assert send_probe(address, "/livez").status == 200
    with pytest.raises(ConnectionRefusedError):
        send_probe(address, "/livez")


def test_during_a_stop_it_is_alive_and_not_ready() -> None:
    answers: list[Response] = []

    def stopped(_: object) -> None:
        answers.extend([send_probe(where[0], "/livez"), send_probe(where[0], "/readyz")])

    app = make(probes=HERE)
    where: list[str] = []
    app.monitor.subscribe("app.probes", lambda event: where.extend(event["addresses"]))
    # The last thing that an App does.
    app.monitor.subscribe("app.stopped", stopped)
    app.start()
    app.stop()
    assert [answer.status for answer in answers] == [200, 503]
    assert [answer.body["why"] for answer in answers] == ["the App is stopping", "the App is stopping"]


def test_brokers_that_are_away_are_no_reason_to_restart() -> None:
    with running(swarm={"not_ready_timeout": "1s"}) as (_, address):

        def late(answer: Response) -> bool:
            return any(problem["seconds"] > problem["limit"] == 1.0 for problem in answer.body["problems"])

        answer = probe_until(address, "/livez", late, "time that is over", 0.05)[-1]
        assert (answer.status, answer.reasons) == (200, ["membership"])
        assert answer.body["problems"][0]["text"].endswith(" s; no broker is connected")
        assert send_probe(address, "/readyz").status == 503


@pytest.mark.own_process
def test_a_port_in_use_is_named_with_the_cure_and_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        app = make(probes=port)
        with pytest.raises(
            grete.ConfigError, match=f"cannot listen at .*:{port}: Address already in use; name another"
        ):
            app.start()
        app = make(probes=f"127.0.0.1:{port}")
        with pytest.raises(grete.ConfigError, match="none") as refused:
            app.run()
        assert refused.value.setting == "probes"
    eventually(lambda: not threads(), 10.0, "threads have ended")
    app.start()  # the port is free now
    app.stop()


@pytest.mark.parametrize(("value", "all_interfaces"), [(0, False), ("*:0", True)])
def test_a_port_alone_listens_on_loopback_and_a_star_everywhere(value: int | str, all_interfaces: bool) -> None:
    seen: list[str] = []
    app = make(probes=value)
    app.monitor.subscribe("app.probes", lambda event: seen.extend(event["addresses"]))
    app.start()
    try:
        hosts = {host.rpartition(":")[0] for host in seen}
        assert len({host.rpartition(":")[2] for host in seen}) == 1, "one port for all addresses"
        assert hosts <= ({"[::]", "0.0.0.0"} if all_interfaces else {"127.0.0.1", "[::1]"})
        assert hosts
        assert send_probe(f"127.0.0.1:{seen[0].rpartition(':')[2]}", "/livez").status == 200
    finally:
        app.stop()


@pytest.mark.parametrize(("value", "warned"), [(0, True), ("*:0", False)])
def test_a_port_alone_is_warned_of_in_a_pod(
    value: int | str, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    app = make(probes=value)
    with caplog.at_level("INFO", logger="grete"):
        app.start()
        app.stop()
    (line,) = [record for record in caplog.records if record.getMessage().startswith("probes at")]
    assert (line.levelname == "WARNING") == warned
    assert ("set probes to *:PORT" in line.getMessage()) == warned


def test_a_host_that_does_not_exist_is_named() -> None:
    app = make(probes="no.such.host.invalid:8080")
    with pytest.raises(grete.ConfigError, match=r"the probes cannot listen at no.such.host.invalid:8080: "):
        app.start()


@pytest.mark.parametrize("value", ["x", "1.2.3.4", "::1:80", "80:", 65536, "-1", True, 8.5, "[::1", ""])
def test_what_is_no_address_is_refused(value: Any) -> None:
    with pytest.raises(grete.ConfigError, match=r"probes \(from code\): .*") as refused:
        make(probes=value)
    assert refused.value.setting == "probes"


@pytest.mark.parametrize(
    ("file", "environment", "code", "command_line", "app", "swarm"),
    [
        ("", {}, {}, None, "none", "none"),
        ('probes = "1"', {}, {}, None, "1", "1"),
        ('probes = "1"', {"GRETE_PROBES": "a:2"}, {}, None, "a:2", "a:2"),
        ('probes = "1"', {"GRETE_PROBES": "2"}, {"probes": 3}, None, "3", "3"),
        ('probes = "1"', {}, {"probes": 3}, "[::1]:4", "::1:4", "::1:4"),
        ('probes = "1"\n[swarm]\nprobes = "5"', {}, {}, None, "1", "5"),
        ("", {"GRETE_PROBES": "2"}, {"swarm": {"probes": "none"}}, None, "2", "none"),
        ("", {"GRETE_SWARM_PROBES": "6"}, {"probes": "none"}, None, "none", "6"),
    ],
)
def test_the_setting_has_all_layers_and_a_swarm_has_the_apps(
    file: str,
    environment: dict[str, str],
    code: dict[str, Any],
    command_line: str | None,
    app: str,
    swarm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("grete.toml").write_text(file)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made = make(**code)
    made.override({"probes": command_line})

    def text(address: tuple[str, int] | None) -> str:
        return "none" if address is None else (f"{address[0]}:" if address[0] else "") + str(address[1])

    resolved = made.settings()
    assert (text(resolved["probes"]), text(resolved.swarm.probes)) == (app, swarm)


def test_an_overdue_job_is_named_until_it_ends() -> None:
    feed = DispatcherFeed(handler_timeout=0.05)
    feed.push([b"1"])
    with serving(feed) as address:
        assert send_probe(address, "/livez").status == 200
        job = feed.next()
        late = probe_until(address, "/livez", lambda answer: answer.status == 503, "overdue job")[-1]
        (problem,) = (one for one in late.body["problems"] if one["reason"] == "handler")
        assert (problem["handler"], problem["topic"], problem["partition"]) == ("Orders.consume", "orders", 0)
        assert problem["seconds"] > problem["limit"] == 0.05
        assert late.body["why"].startswith("Orders.consume has run for 0.")
        feed.dispatcher.complete(job)
        assert send_probe(address, "/livez").status == 200


HOLD = """
import ctypes, sys, threading, time
from grete import _native
from tests.unit.dispatcher_feed import DispatcherFeed
import socket

feed = DispatcherFeed(handler_timeout=0.3)
feed.push([b"1"])
health = _native.Health(feed.dispatcher, "fed", 1.5)
with socket.create_server(("127.0.0.1", 0)) as listener:
    health.serve([listener.fileno()])
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
job = feed.next()
# Unlike CDLL, it keeps the GIL.
ctypes.PyDLL(None).usleep(int(float(sys.argv[1]) * 1_000_000))
feed.dispatcher.complete(job)
print("over", flush=True)
sys.stdin.read()
health.close()
"""


def test_it_answers_while_a_c_call_holds_the_gil() -> None:
    seconds = 4.0
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(seconds)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    assert process.stdout
    try:
        address = process.stdout.readline().strip()
        answers = probe_until(address, "/livez", lambda answer: answer.status == 503, "overdue job")
        for limit, reason in ((0.3, "handler"), (1.5, "gil")):
            answers += probe_until(address, "/livez", lambda answer: reason in answer.reasons, reason)  # noqa: B023
            problem = next(one for one in answers[-1].body["problems"] if one["reason"] == reason)
            assert problem["seconds"] > limit or reason == "gil"
            job = problem if reason == "handler" else problem["jobs"][0]
            assert (job["handler"], job["topic"], job["partition"]) == ("Orders.consume", "orders", 0)
            assert send_probe(address, "/metrics").status == 200
        answers += probe_until(address, "/livez", lambda answer: "and 1 more" in answer.body["why"], "two reasons")
        held = next(one for one in answers[-1].body["problems"] if one["reason"] == "gil")
        assert seconds > held["seconds"] > held["limit"] == 1.5
        answers += probe_until(address, "/livez", lambda answer: answer.status == 200, "end of it")
        assert process.stdout.readline() == "over\n"
        # None of them waited for the GIL: who had, would have waited for seconds.
        assert max(answer.seconds for answer in answers) < 1.0
    finally:
        process.communicate("", timeout=60)
    assert process.returncode == 0


def in_a_process(code: str) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)],  # it forks with threads
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_child_neither_answers_nor_keeps_the_port() -> None:
    code = f"""
    import os, socket, sys
    import grete
    from tests.unit.probe_client import send_probe

    def app():
        made = grete.App("a", kafka={NOWHERE!r}, probes="127.0.0.1:0")
        made.consumer("orders")(lambda messages: None)
        made.monitor.subscribe("app.probes", lambda event: where.append(event["addresses"][0]))
        made.start()
        return made

    where = []
    parent = app()
    port = int(where[0].rpartition(":")[2])
    peer = socket.create_connection(("127.0.0.1", port))
    peer.sendall(b"GET /livez HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    assert peer.recv(10) == b"HTTP/1.1 2"
    reader, writer = os.pipe()
    answer_reader, answer_writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        peer.close()
        # The parent has stopped: no process listens, although this process had a copy.
        os.read(reader, 1)
        try:
            send_probe(f"127.0.0.1:{{port}}", "/livez")
        except ConnectionRefusedError:
            os.write(answer_writer, b"refused")
        own = app()  # it may have its own
        assert send_probe(where[-1], "/livez").status == 200
        own.stop()
        os._exit(0)
    parent.stop()
    # Cut by the parent, whatever the child still holds.
    while peer.recv(1000):
        pass
    os.close(writer)
    print(os.read(answer_reader, 100).decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert in_a_process(code).split() == ["refused", "0"]


@pytest.mark.own_process
def test_closing_all_descriptors_ends_the_probes_and_does_no_harm() -> None:
    code = """
    import os, socket, time
    from grete import _native
    from tests.kafka import eventually
    from tests.unit.test_stop import threads

    dispatcher = _native.Dispatcher()  # it has a descriptor, too, and is not what this is about
    health = _native.Health(dispatcher)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        health.serve([listener.fileno()])
    eventually(lambda: "grete-probes" in threads(), 30.0, "its thread")
    os.closerange(3, 1000)
    # The same numbers, for something else.
    others = [os.open("/dev/null", os.O_RDWR) for _ in range(20)]
    eventually(lambda: "grete-probes" not in threads(), 30.0, "its end")
    health.close()
    del health
    print(all(os.write(other, b"x") for other in others))
    """
    assert in_a_process(code) == "True\n"


CROWDED = """
import os, resource, socket, sys
from grete import _native

health = _native.Health(_native.Dispatcher())
with socket.create_server(("127.0.0.1", 0)) as listener:
    health.serve([listener.fileno()])
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))
spare = [os.dup(0) for _ in range(highest)]
resource.setrlimit(resource.RLIMIT_NOFILE, (spare[-1] + 1 + int(sys.argv[1]), limits[1]))
print("crowded", flush=True)
sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
sys.stdin.readline()
health.close()
"""


@pytest.mark.parametrize("room", [0, 1, 2])
def test_few_descriptors_are_no_end_and_no_reason_to_burn_the_cpu(room: int) -> None:
    command = [sys.executable, "-c", CROWDED, str(room)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    try:
        address = process.stdout.readline().strip()
        assert process.stdout.readline() == "crowded\n"
        host, _, port = address.rpartition(":")
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(socket.create_connection((host, int(port))))
            began, before = time.monotonic(), wakeups("grete-probes", process.pid)
            if room:
                # It takes leave of those who say nothing.
                assert send_probe(address, "/livez").status == 200
            else:
                # There is no connection to close: once a second it looks, once a second it tries.
                eventually(lambda: wakeups("grete-probes", process.pid) >= before + 4, 60.0, "looks")
                assert time.monotonic() - began > 1.0
        process.stdin.write("\n")
        process.stdin.flush()
        assert send_probe(address, "/livez").status == 200
    finally:
        process.communicate("\n", timeout=60)
    assert process.returncode == 0


def test_the_last_descriptor_is_enough_for_one_probe_after_the_other() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CROWDED, "1"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    try:
        address = process.stdout.readline().strip()
        assert process.stdout.readline() == "crowded\n"
        # The search for a descriptor for the next connection fails, and no peer waits for one.
        assert [send_probe(address, "/livez").status for _ in range(5)] == [200] * 5
    finally:
        process.communicate("\n\n", timeout=60)
    assert process.returncode == 0


def test_it_serves_once() -> None:
    health = _native.Health(_native.Dispatcher())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        health.serve([listener.fileno()])
        with pytest.raises(RuntimeError, match="it serves already"):
            health.serve([listener.fileno()])
    health.close()
    with pytest.raises(grete.GreteError, match="listening for probes"):
        _native.Health(_native.Dispatcher()).serve([999_999])


def test_grete_run_says_where() -> None:
    code = f"""
    import grete
    app = grete.App("a", kafka={NOWHERE!r})
    app.consumer("orders")(lambda messages: None)
    app.monitor.subscribe("app.probes", lambda event: app.stop())
    """
    Path("shop.py").write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "grete", "run", "shop:app", "--probes", "localhost:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"probes at (127\.0\.0\.1|\[::1\]):\d+", done.stderr)
