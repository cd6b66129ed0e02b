"""After a client is closed, its process has no copy of its password, token or password of a key.

The secrets are in files that the core reads: what Python reads stays in Python's memory. The broker is another process.
"""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from grete import _native
from grete.broker import Broker
from tests.integration.memory_scan import occurrences
from tests.kafka.certificates import Authority
from tests.kafka.secrets import secret as secret_of

pytestmark = pytest.mark.kafka

PASSWORD = secret_of("of-alice-in-memory")

# Reads its settings from standard input, uses all three clients, closes them, and waits until the parent has searched.
CHILD = """
import gc, json, sys, time
import grete.client
from grete.client import Admin, Consumer, Producer

settings, kept = json.loads(sys.stdin.readline())
def use():
    with Admin(settings) as admin:
        admin.topics()
    with Producer(settings) as producer:
        producer.produce_sync("orders", b"value")
    with Consumer({**settings, "group.id": "g"}) as consumer:
        consumer.subscribe(["orders"])
        end = time.monotonic() + 20
        while not consumer.poll(timeout=1.0, max_messages=10) and time.monotonic() < end: pass
def refuse():
    try:
        with Admin(settings) as admin:
            admin.topics(timeout=10)
    except grete.GreteError as error:
        assert type(error).__name__ == kept, error
def say(word):
    gc.collect()
    print(word, flush=True)
    sys.stdin.readline()
say("ready")
use() if kept is None else refuse()
say("closed")
"""


@contextmanager
def child(settings: dict[str, Any], error: str | None = None) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A process that uses clients. Yields it, and a function that waits for its next stop."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout
        stdin.write(json.dumps([settings, error]) + "\n")
        stdin.flush()

        def stop(word: str) -> None:
            line = stdout.readline().strip()
            if line != word:
                process.kill()
                pytest.fail(f"the process wrote {line!r}: {process.communicate()[1]}")

        def go_on() -> None:
            stdin.write("\n")
            stdin.flush()

        try:
            yield process, (stop, go_on)
        finally:
            process.kill()
            process.communicate()


def copies_after_use(
    settings: dict[str, Any], secret: str | bytes, error: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the copies of a secret before and after clients were used and closed."""
    needle = secret.encode() if isinstance(secret, str) else secret
    with child(settings, error) as (process, (stop, go_on)):
        stop("ready")
        before = occurrences(process.pid, needle)
        go_on()
        stop("closed")
        after = occurrences(process.pid, needle)
        end = time.monotonic() + 15
        # The thread of a token ends a few seconds after the last client.
        while len(after) > len(before) and time.monotonic() < end:
            time.sleep(0.2)
            after = occurrences(process.pid, needle)
        return before, after


def file_of(directory: Path, text: str) -> str:
    file = directory / "secret"
    file.write_text(text + "\n")
    return str(file)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_no_copy_of_a_password_is_left(tmp_path: Path, mechanism: str, protocol: str) -> None:
    tls = tmp_path / "tls" if protocol == "SASL_SSL" else None
    with Broker(topics=["orders"], sasl={"alice": PASSWORD}, tls=tls) as broker:
        settings = {
            **broker.client_settings,
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password.file": file_of(tmp_path, PASSWORD),
            "sasl.allow.plaintext": True,
        }
        assert copies_after_use(settings, PASSWORD) == ([], [])


def test_no_copy_of_a_refused_password_is_left(tmp_path: Path) -> None:
    with Broker(topics=["orders"], sasl={"alice": "another"}) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password.file": file_of(tmp_path, PASSWORD),
            "sasl.allow.plaintext": True,
        }
        assert copies_after_use(settings, PASSWORD, "AuthenticationError") == ([], [])


def test_no_copy_of_a_token_is_left(tmp_path: Path) -> None:
    claims = {"sub": "alice", "iat": time.time(), "exp": time.time() + 600, "long": "x" * 2000}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)
    ]
    token = f"{'.'.join(parts)}."
    with Broker(topics=["orders"], sasl={"alice": PASSWORD}) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.file": file_of(tmp_path, token),
            "sasl.allow.plaintext": True,
        }
        assert copies_after_use(settings, token[:200]) == ([], [])


@contextmanager
def token_endpoint(answer: bytes, server_certificate: tuple[Path, Path] | None) -> Iterator[str]:
    """A token endpoint of this process. Yields its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if server_certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*server_certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'https' if server_certificate else 'http'}://localhost:{server.server_address[1]}/token"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_copy_of_the_secret_and_the_token_of_an_endpoint_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    authority = Authority(tmp_path / "own", "CA")
    identity = authority.sign("idp")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    parts = [{"alg": "none"}, {"sub": "alice", "iat": time.time(), "exp": time.time() + 600, "long": "x" * 2000}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    token = f"{'.'.join(encoded)}."
    answer = json.dumps({"access_token": token, "expires_in": 600, "refresh_token": "r" + token}).encode()
    header = base64.b64encode(f"grete:{PASSWORD}".encode())
    server_certificate = (identity.chain, identity.key) if scheme == "https" else None
    with (
        Broker(topics=["orders"], sasl={"alice": PASSWORD}) as broker,
        token_endpoint(answer, server_certificate) as url,
    ):
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.id": "grete",
            "sasl.oauthbearer.client.secret.file": file_of(tmp_path, PASSWORD),
            "sasl.allow.plaintext": True,
        }
        for needle in (token[:200].encode(), PASSWORD.encode(), header[10:]):
            assert copies_after_use(settings, needle) == ([], [])


@pytest.mark.parametrize("kind", ["key", "keystore"])
def test_no_copy_of_the_password_of_a_key_is_left(tmp_path: Path, kind: str) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
    from cryptography.x509 import load_pem_x509_certificate

    authority = Authority(tmp_path / "own", "CA")
    server, client = authority.sign("broker"), authority.sign("client", password=PASSWORD)
    texts = (server.chain.read_text(), server.key.read_text(), authority.file.read_text())
    if kind == "key":
        own = {"ssl.certificate.location": str(client.chain), "ssl.key.location": str(client.key)}
        own["ssl.key.password.file"] = file_of(tmp_path, PASSWORD)
    else:
        key = load_pem_private_key(client.key.read_bytes(), PASSWORD.encode())
        certificate = load_pem_x509_certificate(client.chain.read_bytes())
        store = tmp_path / "client.p12"
        encryption = BestAvailableEncryption(PASSWORD.encode())
        store.write_bytes(pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, encryption))  # type: ignore[arg-type]
        own = {"ssl.keystore.location": str(store), "ssl.keystore.password.file": file_of(tmp_path, PASSWORD)}
    native = _native.EmbeddedBroker(ports=[0], topics=[("orders", 1)], tls=texts)
    try:
        address = f"localhost:{native.addresses()[0][2]}"
        tls = {"security.protocol": "SSL", "ssl.ca.location": str(authority.file), **own}
        settings = {"bootstrap.servers": address, **tls}
        for needle in (PASSWORD.encode(), PASSWORD.encode("utf-16-be")):
            assert copies_after_use(settings, needle) == ([], [])
    finally:
        native.stop()


def test_no_copy_of_a_private_key_is_left(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "own", "CA")
    server, client = authority.sign("broker"), authority.sign("client")
    texts = (server.chain.read_text(), server.key.read_text(), authority.file.read_text())
    key = client.key.read_text().splitlines()[1]
    native = _native.EmbeddedBroker(ports=[0], topics=[("orders", 1)], tls=texts)
    try:
        settings = {
            "bootstrap.servers": f"localhost:{native.addresses()[0][2]}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.file),
            "ssl.certificate.location": str(client.chain),
            "ssl.key.location": str(client.key),
        }
        for needle in (key.encode(), base64.b64decode(key)[:40]):
            assert copies_after_use(settings, needle) == ([], [])
    finally:
        native.stop()


def test_clients_leave_no_further_copies_of_a_password_that_python_has() -> None:
    with Broker(topics=["orders"], sasl={"alice": PASSWORD}) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "sasl.allow.plaintext": True,
        }
        before, after = copies_after_use(settings, PASSWORD)
        assert before, "the scan finds what Python has"
        assert len(after) <= len(before), after
