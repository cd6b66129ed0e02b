"""`grete doctor` on servers that hang, lie and answer garbage: it ends within its time, and names the step."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from grete._cli.doctor import reach
from grete._cli.doctor.checks import Doctor
from grete._cli.doctor.hang import log_heard
from grete.broker import Broker
from grete.client import cluster
from tests.integration import hostile_servers
from tests.integration.hostile_servers import Behaviour, Server, until_closed
from tests.integration.test_doctor import LOGIN, PASSWORD, doctor
from tests.kafka.certificates import Authority

pytestmark = pytest.mark.kafka

TIMEOUT = 1.0
# Beyond the time of the steps: the start of Python on a machine with other work.
SPARE = 12.0

METADATA, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE, DESCRIBE_CLUSTER = 3, 17, 18, 36, 60


def hangs_at(port: int, *apis: int) -> Behaviour:
    """Passes requests to a broker, and goes silent at a request of these kinds."""

    def behave(connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as broker:
            while True:
                request = hostile_servers.read_frame(connection)
                if struct.unpack_from(">h", request)[0] in apis:
                    until_closed(connection)
                    return
                broker.sendall(struct.pack(">i", len(request)) + request)
                answer = hostile_servers.read_frame(broker)
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    return behave


def drips(connection: socket.socket) -> None:
    """Sends a byte now and then, which is never a whole frame."""
    connection.settimeout(0.2)
    connection.sendall(struct.pack(">i", 1000))
    while True:
        try:
            if not connection.recv(65536):
                return
        except TimeoutError:
            connection.sendall(b"\0")


def half_record(connection: socket.socket) -> None:
    """The beginning of a TLS record."""
    connection.recv(65536)
    connection.sendall(bytes((0x16, 0x03, 0x03, 0x10, 0x00, 0x02)))
    until_closed(connection)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def found_at(
    stack: ExitStack, cwd: Path, behaviour: Behaviour, settings: dict[str, Any] | None = None, steps: int = 4
) -> tuple[str, str]:
    """Return step and problem of the only step that fails."""
    server = stack.enter_context(Server(behaviour))
    started = time.monotonic()
    given = {"bootstrap.servers": server.address.replace("127.0.0.1", "localhost"), **(settings or {})}
    status, findings = doctor(given, "--timeout", f"{TIMEOUT}s", cwd=cwd, limit=60.0)
    assert time.monotonic() - started < steps * TIMEOUT + SPARE
    wrong = [finding for finding in findings if not finding["ok"]]
    assert (status, len(wrong)) == (1, 1), findings
    assert findings[-1] is wrong[0]
    return wrong[0]["step"], wrong[0]["problem"]


@pytest.mark.parametrize(
    ("behaviour", "step"),
    [
        (hostile_servers.silence, "api_versions"),
        (hostile_servers.close_at_once, "api_versions"),
        (hostile_servers.garbage, "api_versions"),
        (hostile_servers.half_frame, "api_versions"),
        (hostile_servers.half_frame_then_close, "api_versions"),
        (hostile_servers.wrong_correlation, "api_versions"),
        (hostile_servers.huge_frame, "api_versions"),
        (hostile_servers.negative_frame, "api_versions"),
        (hostile_servers.huge_array, "api_versions"),
        (hostile_servers.http, "api_versions"),
        (hostile_servers.tls_alert, "api_versions"),
        (hostile_servers.garbage_metadata, "metadata"),
        (drips, "api_versions"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_server_that_is_no_broker(stack: ExitStack, tmp_path: Path, behaviour: Behaviour, step: str) -> None:
    assert found_at(stack, tmp_path, behaviour)[0] == step


@pytest.mark.parametrize(
    ("behaviour", "step"),
    [
        (hostile_servers.silence, "tls"),
        (hostile_servers.close_at_once, "tls"),
        (hostile_servers.garbage, "tls"),
        (hostile_servers.tls_alert, "tls"),
        (half_record, "tls"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_server_that_does_no_tls(stack: ExitStack, tmp_path: Path, behaviour: Behaviour, step: str) -> None:
    authority = Authority(tmp_path / "ca", "CA")
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(authority.file)}
    assert found_at(stack, tmp_path, behaviour, settings)[0] == step


def test_a_server_that_hangs_after_the_handshake_of_tls(stack: ExitStack, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "CA")
    identity = authority.sign("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.chain, identity.key)

    def behave(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            until_closed(encrypted)

    settings = {"security.protocol": "SSL", "ssl.ca.location": str(authority.file)}
    assert found_at(stack, tmp_path, behave, settings)[0] == "api_versions"


@pytest.mark.parametrize(
    ("apis", "step"),
    [
        ((API_VERSIONS,), "api_versions"),
        ((SASL_HANDSHAKE,), "sasl"),
        ((SASL_AUTHENTICATE,), "sasl"),
        ((METADATA, DESCRIBE_CLUSTER), "metadata"),
    ],
)
def test_a_broker_that_hangs_at_one_request(stack: ExitStack, tmp_path: Path, apis: tuple[int, ...], step: str) -> None:
    broker = stack.enter_context(Broker(sasl={"alice": PASSWORD}))
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    where, problem = found_at(stack, tmp_path, hangs_at(port, *apis), LOGIN)
    assert where == step, problem
    assert "within" in problem


def test_addresses_of_ip_version_6(stack: ExitStack, tmp_path: Path) -> None:
    try:
        listener = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    port = listener.getsockname()[1]
    status, findings = doctor({"bootstrap.servers": f"[::1]:{port}"}, "--timeout", "1s", cwd=tmp_path)
    assert (status, [finding["step"] for finding in findings]) == (1, ["settings", "dns", "tcp", "api_versions"])
    listener.close()
    status, findings = doctor({"bootstrap.servers": f"[::1]:{port}"}, "--timeout", "1s", cwd=tmp_path)
    assert findings[-1]["problem"] == f"nothing listens at [::1]:{port}: start the broker, or correct the port"


APPS = {
    "raises": ("raise RuntimeError('no\\n\\x1b[2J')", 'importing "shop" failed'),
    "leaves": ("import sys\nsys.exit(3)", "it calls sys.exit(3)"),
    "wrong": ("import grete\napp = 7", "is a int, not a grete.App"),
    "syntax": ("def (:", 'importing "shop" failed'),
    "missing": ("import no_such_module_of_mine", "no_such_module_of_mine"),
}


@pytest.mark.parametrize("name", APPS)
def test_an_app_that_cannot_be_imported(tmp_path: Path, name: str) -> None:
    source, says = APPS[name]
    (tmp_path / "shop.py").write_text(source)
    done = run(tmp_path, "shop:app")
    assert done.returncode in (1, 2), done
    assert says in done.stderr, done.stderr
    assert "\x1b" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "-1s"], "--timeout"),
        (["--timeout", "soon"], "--timeout"),
        (["--bootstrap", "b"], "bootstrap.servers"),
        (["--bootstrap", "b:99999"], "bootstrap.servers"),
        (["--bootstrap", ":9092"], "bootstrap.servers"),
        (["-k", "x"], "NAME=VALUE"),
        (["-k", "no.such=1"], "no.such"),
        (["no_such_module:app"], "no_such_module"),
        (["shop"], "shop"),
    ],
)
def test_wrong_words_are_named(tmp_path: Path, words: list[str], says: str) -> None:
    done = run(tmp_path, *words)
    assert done.returncode in (1, 2), done
    assert says in done.stdout + done.stderr, done
    assert "Traceback" not in done.stderr, done.stderr


def run(cwd: Path, *words: str) -> Any:
    import os
    import subprocess
    import sys

    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRETE_")}
    return subprocess.run(
        [sys.executable, "-m", "grete", "doctor", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=cwd,
        env=environment,
    )


def test_a_resolver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    over = Event()

    def hangs(*_: object, **__: object) -> list[object]:
        over.wait(30)
        return []

    monkeypatch.setattr("grete._cli.doctor.reach.socket.getaddrinfo", hangs)
    started = time.monotonic()
    addresses, problem = reach.look_up("kafka.example", 0.2)
    over.set()
    assert time.monotonic() - started < 5
    assert addresses == []
    assert problem is not None
    assert "does not answer for kafka.example within 0.2 s" in problem


def test_the_time_is_divided_among_the_addresses_of_a_name() -> None:
    def refused(port: int, addresses: list[str]) -> tuple[str | None, str | None]:
        return reach.connect(addresses, "kafka.example", port, 0.3)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert refused(port, ["127.0.0.2", "127.0.0.1"]) == ("127.0.0.1", None)
    found, problem = refused(port, ["127.0.0.1"])
    assert found is None
    assert problem == f"nothing listens at kafka.example:{port}: start the broker, or correct the port"


def test_brokers_that_hang_are_looked_at_side_by_side() -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(50)]
    brokers = [
        cluster.Broker(number, "127.0.0.1", one.getsockname()[1], None) for number, one in enumerate(listeners, 1)
    ]
    patient = Doctor({"bootstrap.servers": "127.0.0.1:1"}, 0.5)
    started = time.monotonic()
    with log_heard():
        findings = list(patient._check_advertised((*brokers, *brokers)))
    assert time.monotonic() - started < 20, "50 after each other cost 25 s and more"
    for one in listeners:
        one.close()
    assert [finding.ok for finding in findings] == [False] * 50 + [True]
    assert [
        one.problem for one in findings if one.problem and "no answer to ApiVersions within " not in one.problem
    ] == []
    assert findings[50].subject == "all 100 brokers (only the first 50 were checked)"


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1", 0),
        ("127.0.0.1", -1),
        ("127.0.0.1", 70_000),
        ("", 9092),
        ("a b\0c", 9092),
        ("é" * 300, 9092),
        ("::1%x", 1),
    ],
)
def test_an_advertised_address_that_cannot_be(host: str, port: int) -> None:
    started = time.monotonic()
    with log_heard():
        (finding,) = Doctor({"bootstrap.servers": "b:1"}, 1.0)._check_advertised((cluster.Broker(7, host, port, None),))
    assert time.monotonic() - started < 5
    assert finding.problem is not None
    assert "broker 7 advertises" in finding.problem
    assert "set advertised.listeners of broker 7" in finding.problem
