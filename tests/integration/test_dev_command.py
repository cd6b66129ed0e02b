"""`grete dev`: brokers in the foreground, and an App beside them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.integration.dev_process import DevRun
from tests.integration.procfs import processes
from tests.kafka.processes import kill_group
from tests.kafka.waiting import eventually

APP = """
import os
import grete

app = grete.App("shop", kafka={{"bootstrap.servers": "127.0.0.1:1"}})


@app.consumer("orders", group="shop")
class Orders(grete.Consumer):
    def consume(self):
        for message in self.messages:
            os.write(1, f"{word} {{message.value.decode()}} {{os.getpid()}}\\n".encode())
"""


def write_app(directory: Path, word: str) -> None:
    (directory / "shop.py").write_text(APP.format(word=word))


def produce(servers: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(20) == 0


def consume(servers: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "earliest"})
    with contextlib.closing(consumer):
        consumer.subscribe(["orders"])
        values: list[str] = []
        while len(values) < count:
            message = consumer.poll(20)
            assert message is not None, f"only {values}"
            assert message.error() is None, message.error()
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value.decode())
        return values


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    return processes().get(pid, (0, "Z"))[1] != "Z"


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_brokers_run_until_a_signal_and_leave_nothing(tmp_path: Path, sig: signal.Signals) -> None:
    with DevRun(tmp_path, "--topic", "orders:3", "--topic", "bills", "--brokers", "3") as dev:
        servers = dev.bootstrap_servers.split(",")
        assert len(servers) == 3
        dev.until("topics:  bills (1), orders (3)")
        produce(dev.bootstrap_servers, "a", "b", "c")
        assert sorted(consume(servers[2], 3)) == ["a", "b", "c"]
        assert dev.stop(sig) == 0
        for server in servers:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int(server.rpartition(":")[2])))
        assert "Traceback" not in dev.output


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with DevRun(tmp_path, port=port) as dev:
            assert dev.wait() == 1
            assert f"cannot listen on 127.0.0.1:{port}" in dev.output
            assert "Traceback" not in dev.output


def test_a_directory_in_use_is_an_error(tmp_path: Path) -> None:
    with DevRun(tmp_path, "--data", tmp_path / "data") as first:
        assert first.bootstrap_servers
        with DevRun(tmp_path, "--data", tmp_path / "data") as second:
            assert second.wait() == 1
            assert f"is in use by process {first.pid}" in second.output


def test_the_app_runs_on_the_brokers_whatever_its_settings_say(tmp_path: Path) -> None:
    write_app(tmp_path, "got")
    with DevRun(tmp_path, "--topic", "orders", "--no-reload", "shop:app", "--", "--probes", "none") as dev:
        produce(dev.bootstrap_servers, "one")
        dev.until("got one")
        app = int(dev.output.partition("got one ")[2].split()[0])
        assert dev.stop(signal.SIGTERM) == 0
        assert not is_alive(app)
        assert "Traceback" not in dev.output


def test_ctrl_c_of_a_terminal_stops_app_and_brokers_once(tmp_path: Path) -> None:
    write_app(tmp_path, "got")
    with DevRun(tmp_path, "--topic", "orders", "--no-reload", "shop:app", "--", "--probes", "none") as dev:
        produce(dev.bootstrap_servers, "one")
        dev.until("got one")
        kill_group(dev.process, signal.SIGINT)  # as a terminal does
        assert dev.wait() == 0
        assert "Traceback" not in dev.output
        assert "second" not in dev.output, "the App must not see a second stop"


def test_ctrl_c_lets_handlers_end_also_if_the_app_had_no_processor(tmp_path: Path) -> None:
    """SIGINT of the terminal and SIGTERM of the command would wait together, and be handled in the wrong order."""
    slow = """
import os, pathlib, time
import grete

app = grete.App("shop")


@app.consumer("orders")
def handle(message: grete.Message) -> None:
    os.write(1, f"got one {os.getpid()}\\n".encode())
    while not pathlib.Path("release").exists():
        time.sleep(0.01)
    os.write(1, b"finished\\n")
"""
    (tmp_path / "shop.py").write_text(slow)
    with DevRun(tmp_path, "--topic", "orders", "--no-reload", "shop:app", "--", "--probes", "none") as dev:
        produce(dev.bootstrap_servers, "one")
        dev.until("got one")
        app = int(dev.output.partition("got one ")[2].split()[0])
        os.kill(app, signal.SIGSTOP)
        # Before it has stopped, it may begin to handle the next signal.
        eventually(lambda: processes()[app][1] == "T", 20, "the App has stopped")
        kill_group(dev.process, signal.SIGINT)
        with contextlib.suppress(AssertionError):
            eventually(lambda: is_pending(app, signal.SIGTERM), 1, "it comes when SIGINT is handled, not before")
        os.kill(app, signal.SIGCONT)
        dev.until("SIGINT: stopping")
        eventually(lambda: not is_pending(app, signal.SIGINT), 20, "the signal is handled")
        (tmp_path / "release").touch()
        assert dev.wait() == 0
        assert "finished" in dev.output
        assert "SIGTERM: stopping" not in dev.output.partition("SIGINT: stopping")[0], "the App would not wait"
        assert "forced stop" not in dev.output


def is_pending(pid: int, sig: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (bits,) = [int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd:")]
    return bool(bits >> (sig - 1) & 1)


def test_a_killed_command_takes_the_app_along(tmp_path: Path) -> None:
    write_app(tmp_path, "got")
    with DevRun(tmp_path, "--topic", "orders", "--no-reload", "shop:app", "--", "--probes", "none") as dev:
        produce(dev.bootstrap_servers, "one")
        dev.until("got one")
        app = int(dev.output.partition("got one ")[2].split()[0])
        os.kill(dev.pid, signal.SIGKILL)
        dev.wait()
        eventually(lambda: not is_alive(app), 20, "the end of the App")


def test_an_app_that_ends_ends_the_command_with_its_status(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise RuntimeError('broken')\n")
    with DevRun(tmp_path, "--no-reload", "shop:app") as dev:
        assert dev.wait() == 1
        assert "RuntimeError: broken" in dev.output


def test_a_changed_file_starts_the_app_again(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    write_app(tmp_path, "before")
    with DevRun(tmp_path, "--topic", "orders", "shop:app", "--", "--probes", "none") as dev:
        produce(dev.bootstrap_servers, "one")
        dev.until("before one")
        write_app(tmp_path, "after")
        dev.until("a file has changed")
        produce(dev.bootstrap_servers, "two")
        dev.until("after two")
        assert "after one" not in dev.output, "the first App has committed"
        # A broken file ends the App, and not the command.
        (tmp_path / "shop.py").write_text("raise RuntimeError('broken')\n")
        dev.until("the App has ended with status 1")
        write_app(tmp_path, "mended")
        produce(dev.bootstrap_servers, "three")
        dev.until("mended three")
        assert [parent for parent, _ in processes().values()].count(dev.pid) == 1
        assert dev.stop() == 0
