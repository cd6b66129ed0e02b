"""Embedded brokers of `grete.broker`, and the arguments of `grete dev`."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import grete
from grete import _native
from grete._cli import main as cli
from grete._dev import command
from grete.broker import Broker
from tests.kafka.secrets import secret


def ask_api_versions(address: tuple[str, int]) -> int:
    """Returns the error code of an ApiVersions response, in version 0."""
    with socket.create_connection(address, timeout=20) as stream:
        request = struct.pack(">hhih", 18, 0, 7, 2) + b"me"
        stream.sendall(struct.pack(">i", len(request)) + request)
        response = b""
        while len(response) < 10:
            part = stream.recv(4096)
            assert part, response
            response += part
    _, correlation_id, error = struct.unpack(">iih", response[:10])
    assert correlation_id == 7
    return int(error)


def test_brokers_answer_from_start_to_stop_and_again() -> None:
    broker = Broker(topics={"orders": 8}, brokers=2)
    with pytest.raises(grete.ClosedError, match="call start"):
        _ = broker.bootstrap_servers
    for _ in range(2):
        with broker:
            addresses = broker.addresses
            assert broker.bootstrap_servers == ",".join(f"{host}:{port}" for host, port in addresses)
            assert [ask_api_versions(address) for address in addresses] == [0, 0]
            assert broker.topics() == {"orders": 8}
        for address in addresses:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)
    broker.stop()


def test_topics_are_created_with_settings() -> None:
    with Broker(topics=["one", "two"]) as broker:
        broker.create_topic("three", 3, {"retention.ms": "1000"})
        assert broker.topics() == {"one": 1, "two": 1, "three": 3}
        with pytest.raises(grete.BrokerError, match="already exists"):
            broker.create_topic("three")
        with pytest.raises(grete.BrokerError, match=r"no\.such"):
            broker.create_topic("four", 1, {"no.such": "1"})


def test_a_broker_that_is_stopped_refuses_connections_on_its_own_port() -> None:
    with Broker(brokers=2) as broker:
        first, second = broker.addresses
        broker.call("stop_broker", broker=1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(first)
        assert ask_api_versions(second) == 0
        broker.call("start_broker", broker=1)
        assert ask_api_versions(first) == 0


def test_commands_say_what_is_wrong() -> None:
    with Broker() as broker:
        with pytest.raises(ValueError, match='no command "nope"'):
            broker.call("nope")
        with pytest.raises(ValueError, match="stop_broker needs the argument broker"):
            broker.call("stop_broker")
        with pytest.raises(grete.BrokerError, match="no broker 7"):
            broker.call("stop_broker", broker=7)
        with pytest.raises(TypeError):
            broker.call("stop_broker", broker="x")


def test_data_outlives_the_brokers(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", topics={"orders": 3}) as broker:
        broker.create_topic("bills", 2)
        with pytest.raises(grete.BrokerError, match=f"in use by process {os.getpid()}"):
            Broker(data=tmp_path / "data").start()
    with Broker(data=str(tmp_path / "data")) as broker:
        assert broker.topics() == {"orders": 3, "bills": 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"brokers": 0}, "1 to 100 brokers, not 0"),
        (
            {"brokers": 2, "port": 65535},
            "2 brokers have ports in a row, so the first one is 1 to 65534, or 0 .* not 65535",
        ),
        ({"port": -1}, "a port is 1 to 65535, or 0 for a free one, not -1"),
        ({"super_users": ["bob"]}, 'no client can be the super user "bob".*--sasl'),
        ({"tls": "/proc/none/tls"}, 'certificates cannot be written to "/proc/none/tls".*--tls-dir'),
        ({"port": "9092"}, "port is a whole number, not '9092'"),
        ({"brokers": 2.5}, "brokers is a whole number, not 2.5"),
        ({"topics": "orders"}, "topics are a dict"),
        ({"topics": {"orders": "8"}}, r"topics are a dict like .*, not \('orders', '8'\)"),
        ({"topics": [("orders", 8)]}, r"topics are a dict like .*, not \('orders', 8\)"),
        ({"sasl": "alice"}, "sasl is a dict like .*, not str"),
        ({"memory": "many"}, "memory: a size is"),
        ({"host": "0.0.0.0"}, "everyone who can reach the port"),
        ({"host": "0.0.0.0", "allow_anyone": True}, "--advertised-host"),
        ({"host": "0.0.0.0", "sasl": {"alice": secret()}}, "in plain text; encrypt them"),
        ({"host": "nowhere"}, "host is the address of a network interface"),
        ({"version": "2.8"}, "choose one of 3.3"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(grete.ConfigError, match=message):
        Broker(**settings).start()


def test_an_invalid_topic_is_refused() -> None:
    with pytest.raises(grete.BrokerError, match='topic "no spaces" cannot be created'):
        Broker(topics={"no spaces": 1}).start()


def test_a_forked_child_has_no_broker() -> None:
    with Broker() as broker:
        pid = os.fork()
        if pid == 0:
            try:
                broker.topics()
            except grete.ForkedClientError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert broker.topics() == {}


def test_many_connections_at_once_are_accepted_without_a_retry_of_the_kernel() -> None:
    """A SYN that a full queue of the listener drops is sent again after a second."""
    with Broker() as broker, contextlib.ExitStack() as stack:
        for _ in range(400):
            connection = stack.enter_context(socket.create_connection(broker.addresses[0]))
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            assert int.from_bytes(info[100:104], sys.byteorder) == 0, "tcpi_total_retrans"


def test_the_table_of_features_shows_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--features"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["AlterClientQuotas"] == "not implemented"
    assert lines["ApiVersions"] == "0 to 4"
    assert command.main(["--features", "--as-version", "3.9"]) == 0
    versions = dict(_native.broker_features("3.9"))
    assert versions["Fetch"] != dict(_native.broker_features())["Fetch"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--topic", "orders:many"], 'like "orders:8", not "orders:many"'),
        (["--topic", ":3"], "a topic is NAME"),
        (["--brokers", "x"], "invalid int value"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--", "--probes", "none"], "options after -- are for an App"),
        (["--watch", "."], "--watch is for an App"),
        (["--no-reload"], "--no-reload is for an App"),
        (["shop:app", "--watch", "nowhere"], '--watch: there is no directory "nowhere"'),
        (["--fsync"], "--fsync needs --data DIR"),
        (["--data", ""], "--data needs the path of a directory"),
        (["--topic", "orders", "--topic", "orders:3"], '--topic names "orders" twice'),
        (["--sasl", "a:b", "--sasl", "a:c"], '--sasl names "a" twice'),
    ],
)
def test_wrong_arguments_are_usage_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(words)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_errors_of_settings_have_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--host", "0.0.0.0"]) == 1
    assert command.main(["--features", "--as-version", "1.0"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["Error", "Error"]


def test_the_command_is_in_the_overview_and_works_through_click() -> None:
    assert "Run brokers for development" in CliRunner().invoke(cli, ["--help"]).output
    done = CliRunner().invoke(cli, ["dev", "--features"])
    assert done.exit_code == 0, done.output
    assert "not implemented" in done.output


def test_the_command_imports_little() -> None:
    script = (
        "import sys, grete._dev.command, grete._dev.foreground\n"
        "from grete.broker import Broker\n"
        "with Broker() as broker: broker.topics()\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"click", "typing", "asyncio", "socket", "subprocess", "logging", "grete.app", "grete.client", "watchfiles"}
    assert not heavy & set(done.stdout.split())
