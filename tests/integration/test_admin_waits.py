"""How calls of the admin client wait, and how they end when nothing comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import grete
from grete.client import Admin
from tests.integration import hostile_servers
from tests.kafka import KafkaCluster, eventually
from tests.kafka.jars import ROOT

# Seconds by which a loaded machine may be late; without its limit a call would take a minute.
LATE = 15.0


def test_a_silent_broker_ends_in_a_timeout_that_names_the_operation() -> None:
    with (
        hostile_servers.Server(hostile_servers.silence) as server,
        Admin({"bootstrap.servers": server.address}) as admin,
    ):
        calls: dict[str, Callable[[], object]] = {
            "create_topics": lambda: admin.create_topic("orders", timeout=0.5),
            "describe_groups": lambda: admin.describe_group("billing", timeout=0.5),
            "reset_offsets": lambda: admin.reset_offsets("billing", {("orders", 0): 5}, timeout=0.5),
            "cluster": lambda: admin.cluster(timeout=0.5),
        }
        for name, call in calls.items():
            started = time.monotonic()
            with pytest.raises(grete.TimeoutError, match=f"^{name} .*0.5 s: waited for") as caught:
                call()
            assert 0.4 < time.monotonic() - started < LATE
            assert isinstance(caught.value, TimeoutError)


def test_a_refused_port_says_what_to_check() -> None:
    with hostile_servers.Server(hostile_servers.silence) as server:
        address = server.address
    with (
        Admin({"bootstrap.servers": address}) as admin,
        pytest.raises(grete.TimeoutError, match=r"no connection.*bootstrap\.servers"),
    ):
        admin.topics(timeout=0.5)


@pytest.mark.parametrize(
    "behaviour",
    [hostile_servers.garbage, hostile_servers.close_at_once, hostile_servers.huge_frame, hostile_servers.half_frame],
)
def test_a_server_that_is_no_broker_is_given_up_in_time(behaviour: hostile_servers.Behaviour) -> None:
    with hostile_servers.Server(behaviour) as server, Admin({"bootstrap.servers": server.address}) as admin:
        started = time.monotonic()
        with pytest.raises((grete.TimeoutError, grete.NotKafkaError)):
            admin.topics(timeout=1.0)
        assert time.monotonic() - started < LATE


@pytest.mark.parametrize(
    ("behaviour", "looks_like"), [(hostile_servers.http, "HTTP"), (hostile_servers.tls_alert, "TLS")]
)
def test_what_is_surely_no_kafka_is_said_at_once(behaviour: hostile_servers.Behaviour, looks_like: str) -> None:
    with hostile_servers.Server(behaviour) as server, Admin({"bootstrap.servers": server.address}) as admin:
        for _ in range(2):
            with pytest.raises(grete.NotKafkaError, match=looks_like):
                admin.topics(timeout=30.0)


def test_nothing_connects_before_the_first_question() -> None:
    with (
        hostile_servers.Server(hostile_servers.silence) as server,
        Admin({"bootstrap.servers": server.address}) as admin,
    ):
        with pytest.raises(grete.TimeoutError):
            admin.topics(timeout=0.2)
        assert server.connections == 1
        with Admin({"bootstrap.servers": server.address}):
            pass
        assert server.connections == 1


def switches(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def named(name: str) -> list[Path]:
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return [task for task in tasks if (task / "comm").read_text().strip() == name]


def test_no_thread_wakes_up_while_a_call_waits() -> None:
    """The caller sleeps until its answer is there, the network thread until something comes or a time is up."""
    seconds = 3.0
    with (
        hostile_servers.Server(hostile_servers.silence) as server,
        Admin({"bootstrap.servers": server.address}) as admin,
    ):
        asked = threading.Event()
        ended = threading.Event()
        caller: list[int] = []

        def wait() -> None:
            caller.append(threading.get_native_id())
            asked.set()
            with pytest.raises(grete.ClosedError):
                admin.cluster(timeout=60.0)
            ended.set()

        thread = threading.Thread(target=wait)
        thread.start()
        asked.wait()
        eventually(lambda: server.connections == 1, 10.0, "a question")
        threading.Event().wait(1.5)  # it connects, and looks once more for another address after a second
        tasks = [Path(f"/proc/{os.getpid()}/task/{caller[0]}"), *named("grete-admin")]
        assert len(tasks) == 2
        before = [switches(task) for task in tasks]
        threading.Event().wait(seconds)  # the time itself is what is measured over
        after = [switches(task) for task in tasks]
        assert not ended.is_set()
        admin.close()
        thread.join(10.0)
        assert ended.is_set(), "closing ends calls under way"
    assert before == after


def test_ctrl_c_ends_a_wait() -> None:
    with (
        hostile_servers.Server(hostile_servers.silence) as server,
        Admin({"bootstrap.servers": server.address}) as admin,
    ):

        def interrupt() -> None:
            eventually(lambda: server.connections == 1, 10.0, "a question")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            admin.topics(timeout=60.0)
        assert time.monotonic() - started < 10.0
        thread.join()
        # The client goes on.
        with pytest.raises(grete.TimeoutError):
            admin.topics(timeout=0.1)


def test_a_signal_that_raises_nothing_does_not_end_a_wait() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: seen.append(number))
    try:
        with (
            hostile_servers.Server(hostile_servers.silence) as server,
            Admin({"bootstrap.servers": server.address}) as admin,
        ):

            def disturb() -> None:
                eventually(lambda: server.connections == 1, 10.0, "a question")
                os.kill(os.getpid(), signal.SIGUSR1)

            thread = threading.Thread(target=disturb)
            thread.start()
            started = time.monotonic()
            with pytest.raises(grete.TimeoutError):
                admin.topics(timeout=1.0)
            assert 0.9 < time.monotonic() - started < LATE
            thread.join()
            assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_closed_client_says_so() -> None:
    admin = Admin({"bootstrap.servers": "localhost:1"})
    admin.close()
    admin.close()
    with pytest.raises(grete.ClosedError):
        admin.topics()
    assert repr(admin) == "<grete.client.Admin, closed>"


def test_settings_are_checked_before_anything_starts() -> None:
    with pytest.raises(grete.ConfigError, match=r"request\.timeout\.ms"):
        Admin({"bootstrap.servers": "localhost:1", "request.timeout.mss": 5})
    # One dict serves all clients.
    shared = {"bootstrap.servers": "localhost:1", "group.id": "g", "acks": "all", "queued_bytes": "1MiB"}
    Admin(shared).close()


@pytest.mark.kafka
def test_many_threads_get_their_own_answers(kafka: KafkaCluster, topic: str) -> None:
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin, ThreadPoolExecutor(8) as pool:
        names = [f"{topic}-{number}" for number in range(24)]
        list(pool.map(lambda name: admin.create_topic(name, 1 + int(name.rpartition("-")[2]) % 3), names))
        counts = list(pool.map(lambda name: len(admin.describe_topic(name).partitions), names))
    assert counts == [1 + number % 3 for number in range(24)]


SCRIPT = """
import gc, json, os, sys
import grete
from grete.client import Admin
servers = sys.argv[1]
parent = Admin({"bootstrap.servers": servers})
brokers = len(parent.cluster().brokers)
read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    answer = {}
    for name, call in {"topics": parent.topics, "cluster": parent.cluster, "close": parent.close}.items():
        try:
            call()
            answer[name] = "no error"
        except grete.ForkedClientError as error:
            answer[name] = "forked: " + str(error)
        except BaseException as error:
            answer[name] = repr(error)
    del parent
    gc.collect()
    with Admin({"bootstrap.servers": servers}) as own:
        answer["own"] = len(own.cluster().brokers)
    os.write(write_end, json.dumps(answer).encode())
    os._exit(0)
os.close(write_end)
with open(read_end) as pipe:
    answer = json.loads(pipe.read())
answer["status"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
answer["parent"] = len(parent.cluster().brokers)
print(json.dumps(answer))
# The parent's client is closed by the interpreter's end only.
"""


@pytest.mark.kafka
def test_a_child_gets_an_error_and_an_open_client_ends_with_the_interpreter(kafka: KafkaCluster) -> None:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, kafka.bootstrap_servers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    for call in ("topics", "cluster", "close"):
        assert answer[call].startswith("forked: "), answer
    assert (answer["own"], answer["parent"], answer["status"]) == (1, 1, 0)
