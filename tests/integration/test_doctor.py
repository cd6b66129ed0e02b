"""`grete doctor`: planted misconfigurations. Each is found at its step, within its time, with the cure; and the client
itself raises its typed error, which the doctor repeats.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import grete
from grete import _native
from grete._cli.doctor.finding import CertificateEnd
from grete.broker import Broker
from grete.client import AclBinding, AclOperation, AclPermission, Admin, PatternType, ResourceType
from tests.kafka.certificates import DAY, NOW, Authority
from tests.kafka.secrets import secret

pytestmark = pytest.mark.kafka

PASSWORD = secret("alice")
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": PASSWORD,
}


def doctor(settings: dict[str, Any], *words: str, cwd: Path, limit: float = 20.0) -> tuple[int, list[dict[str, Any]]]:
    """Returns the status and the findings."""
    pairs = [word for name, value in settings.items() for word in ("-k", f"{name}={value}")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRETE_")}
    done = subprocess.run(
        [sys.executable, "-m", "grete", "doctor", "--json", "--timeout", "3s", *pairs, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=limit,
        cwd=cwd,
        env=environment,
    )
    assert done.stderr == "", "the findings say all"
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


class Place:
    """Brokers of one test."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self.directory = directory
        self._stack = stack

    def plain(self, **options: Any) -> dict[str, Any]:
        broker = self._stack.enter_context(Broker(topics=["orders"], **options))
        return {"bootstrap.servers": broker.bootstrap_servers, **broker.client_settings}

    def with_login(self, **change: Any) -> dict[str, Any]:
        return {**self.plain(sasl={"alice": PASSWORD}), **LOGIN, **change}

    def allowed(self, *acls: AclBinding, **words: str) -> dict[str, Any]:
        """Brokers where alice may do what these ACLs allow, and the words for the doctor."""
        broker = self._stack.enter_context(
            Broker(topics=["orders"], sasl={"admin": "a", "alice": PASSWORD}, super_users=["admin"])
        )
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        with Admin({**servers, **LOGIN, "sasl.username": "admin", "sasl.password": "a"}) as admin:
            admin.create_acls(acls)
        return {**servers, **LOGIN, **words}

    def tls(self, **options: Any) -> dict[str, Any]:
        return self.plain(tls=self.directory / "broker", **options)

    def certificate(self, revoked: bool = False, client: datetime | None = None, **options: Any) -> dict[str, Any]:
        """A broker with this certificate. `client`: it asks for the client's, which expires then."""
        authority = Authority(self.directory / "own", "CA")
        identity = authority.sign("broker", **options)
        texts = (identity.chain.read_text(), identity.key.read_text(), authority.file.read_text() if client else None)
        native = _native.EmbeddedBroker(ports=[0], topics=[], tls=texts)
        self._stack.callback(native.stop)
        address = f"localhost:{native.addresses()[0][2]}"
        settings = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": str(authority.file)}
        if revoked:
            settings["ssl.crl.location"] = str(authority.revoke(identity))
        if client is not None:
            settings["ssl.keystore.location"] = str(authority.sign("client", not_after=client).keystore)
        return settings

    def tokens(self, **source: str) -> dict[str, Any]:
        """A broker for OAUTHBEARER, whose clock is an hour ahead."""
        native = _native.EmbeddedBroker(ports=[0], topics=[], users=[("alice", PASSWORD)])
        self._stack.callback(native.stop)
        native.call("advance_clock", ms=3_600_000)
        servers = {"bootstrap.servers": f"127.0.0.1:{native.addresses()[0][2]}"}
        login = without(LOGIN, "sasl.username", "sasl.password") | {"sasl.mechanism": "OAUTHBEARER"}
        return {**servers, **login, "sasl.allow.plaintext": "true", **source}

    def token_file(self, **claims: float) -> str:
        """A token that is valid for ten minutes by the clock of this machine."""
        life = 86_400.0 if claims else 600.0
        parts: list[dict[str, Any]] = [{"alg": "none"}, {"sub": "alice", "exp": time.time() + life, **claims}]
        texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
        (self.directory / "token").write_text(f"{'.'.join(texts)}.\n")
        return str(self.directory / "token")

    def advertised(self, host: str) -> dict[str, Any]:
        native = _native.EmbeddedBroker(ports=[0], topics=[], advertised_host=host)
        self._stack.callback(native.stop)
        return {"bootstrap.servers": f"127.0.0.1:{native.addresses()[0][2]}"}

    def silent(self) -> str:
        """A server that accepts connections and says nothing."""
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with contextlib.ExitStack() as stack:
        yield Place(tmp_path, stack)


def other_authority(place: Place) -> dict[str, Any]:
    return place.tls() | {"ssl.ca.location": str(Authority(place.directory / "other", "Other CA").file)}


def without(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def allow(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(kind, name, "User:alice", operation)


READ_TOPIC = allow(ResourceType.TOPIC, "orders", AclOperation.READ)
WRITE_TOPIC = allow(ResourceType.TOPIC, "orders", AclOperation.WRITE)
DESCRIBE_TOPIC = allow(ResourceType.TOPIC, "orders", AclOperation.DESCRIBE)
DESCRIBE_GROUP = allow(ResourceType.GROUP, "shop", AclOperation.DESCRIBE)
DENY_READ = AclBinding(ResourceType.TOPIC, "o", "User:*", AclOperation.READ, AclPermission.DENY, PatternType.PREFIXED)
CURE = "grete acls create --allow-principal User:alice --operation"

Plant = Callable[[Place], dict[str, Any]]

# The table of docs/doctor.md: name, settings, step, error of the client (None: only the doctor looks), cure.
PLANTS: list[tuple[str, Plant, str, type[Exception] | None, str]] = [
    ("name", lambda _: {"bootstrap.servers": "no-such-host.invalid:9092"}, "dns", None, "correct the name"),
    ("port", lambda _: {"bootstrap.servers": "127.0.0.1:1"}, "tcp", None, "start the broker, or correct the port"),
    ("silent", lambda p: {"bootstrap.servers": p.silent()}, "api_versions", grete.TimeoutError, "no answer"),
    (
        "plain to TLS",
        lambda p: without(p.tls(), "security.protocol", "ssl.ca.location"),
        "api_versions",
        grete.NotKafkaError,
        "set security.protocol=SSL",
    ),
    (
        "TLS to plain",
        lambda p: p.plain() | {"security.protocol": "SSL"},
        "tls",
        grete.TlsError,
        "use the port of an SSL listener",
    ),
    ("unknown CA", other_authority, "tls", grete.TlsError, "ssl.ca.location"),
    ("system CA", lambda p: without(p.tls(), "ssl.ca.location"), "tls", grete.TlsError, "ssl.ca.location"),
    ("wrong name", lambda p: p.certificate(hosts=["kafka.internal"]), "tls", grete.TlsError, "is for kafka.internal"),
    ("expired", lambda p: p.certificate(not_after=NOW - DAY), "tls", grete.TlsError, "expired on"),
    ("not yet valid", lambda p: p.certificate(not_before=NOW + DAY), "tls", grete.TlsError, "clock"),
    (
        "no certificate",
        lambda p: without(p.tls(mutual_tls=True), "ssl.keystore.location"),
        "tls",
        grete.TlsError,
        "certificate",
    ),
    (
        "revoked certificate",
        lambda p: p.certificate(revoked=True),
        "tls",
        grete.TlsError,
        "is revoked in ssl.crl.location",
    ),
    (
        "expired client certificate",
        lambda p: p.certificate(client=NOW - DAY),
        "tls",
        grete.TlsError,
        "the certificate of this client: it expired on",
    ),
    (
        "token source that hangs",
        lambda p: p.tokens(
            **{
                "sasl.oauthbearer.token.endpoint.url": f"http://{p.silent()}/token",
                "sasl.oauthbearer.client.id": "alice",
                "sasl.oauthbearer.client.secret": PASSWORD,
            }
        ),
        "sasl",
        grete.AuthenticationError,
        "its source has not answered",
    ),
    (
        "clock behind the broker's",
        lambda p: p.tokens(**{"sasl.oauthbearer.token.file": p.token_file()}),
        "sasl",
        grete.AuthenticationError,
        "compare the clock of this machine",
    ),
    (
        "token that is not valid yet",
        lambda p: p.tokens(**{"sasl.oauthbearer.token.file": p.token_file(iat=time.time() + 7200)}),
        "sasl",
        grete.AuthenticationError,
        "by this machine's clock the token is not valid for another",
    ),
    (
        "missing file",
        lambda p: p.tls() | {"ssl.ca.location": "/no/such/ca.pem"},
        "settings",
        grete.ConfigError,
        "/no/such/ca.pem",
    ),
    (
        "password",
        lambda p: p.with_login(**{"sasl.password": "wrong"}),
        "sasl",
        grete.AuthenticationError,
        "check sasl.username and sasl.password",
    ),
    (
        "user",
        lambda p: p.with_login(**{"sasl.username": "nobody"}),
        "sasl",
        grete.AuthenticationError,
        "check sasl.username and sasl.password",
    ),
    (
        "mechanism",
        lambda p: p.plain(sasl={"alice": PASSWORD}, settings={"sasl.enabled.mechanisms": "SCRAM-SHA-256"}) | LOGIN,
        "sasl",
        grete.AuthenticationError,
        "set sasl.mechanism to one of",
    ),
    (
        "no login",
        lambda p: p.with_login() | {"security.protocol": "PLAINTEXT"},
        "sasl",
        grete.AuthenticationError,
        "set security.protocol to SASL",
    ),
    ("login to plain", lambda p: p.plain() | LOGIN, "sasl", grete.AuthenticationError, "does not do SASL"),
    (
        "exposed password",
        lambda p: p.with_login(**{"sasl.mechanism": "PLAIN"}),
        "settings",
        grete.ConfigError,
        "use SASL_SSL",
    ),
    (
        "protocol in the address",
        lambda _: {"bootstrap.servers": "SSL://b:9093"},
        "settings",
        grete.ConfigError,
        "set security.protocol=SSL",
    ),
    (
        "no mechanism",
        lambda _: {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL"},
        "settings",
        grete.ConfigError,
        "needs sasl.mechanism",
    ),
    (
        "advertised name",
        lambda p: p.advertised("kafka-1.invalid"),
        "advertised",
        None,
        "set advertised.listeners of broker 1",
    ),
    ("topic", lambda p: p.plain() | {"TOPIC": "absent"}, "topic", None, "grete topics create absent"),
    (
        "topic without Read",
        lambda p: p.allowed(WRITE_TOPIC, TOPIC="orders"),
        "topic",
        None,
        f"{CURE} Read --topic orders",
    ),
    (
        "a rack in which no broker is",
        lambda p: {**p.plain(settings={"broker.rack": "a"}), "client.rack": "A"},
        "rack",
        None,
        "set client.rack to one of a",
    ),
    (
        "a rack, and brokers without racks",
        lambda p: {**p.plain(), "client.rack": "a"},
        "rack",
        None,
        "set broker.rack of each broker",
    ),
    (
        "topic without Write",
        lambda p: p.allowed(READ_TOPIC, WRITTEN="orders"),
        "topic",
        None,
        f"{CURE} Write --topic orders",
    ),
    ("topic without Describe", lambda p: p.allowed(TOPIC="orders"), "topic", None, f"{CURE} Read --topic orders"),
    (
        "topic with a Read that is denied",
        lambda p: p.allowed(READ_TOPIC, DESCRIBE_TOPIC, DENY_READ, TOPIC="orders"),
        "topic",
        None,
        "needs Read on topic orders",
    ),
    (
        "group without Read",
        lambda p: p.allowed(READ_TOPIC, DESCRIBE_GROUP, GROUP="shop"),
        "group",
        None,
        f"{CURE} Read --group shop",
    ),
    (
        "group without any ACL",
        lambda p: p.allowed(READ_TOPIC, GROUP="shop"),
        "group",
        None,
        f"{CURE} Read --group shop",
    ),
]


@pytest.mark.parametrize(
    ("plant", "step", "error", "cure"), [plant[1:] for plant in PLANTS], ids=[plant[0] for plant in PLANTS]
)
def test_a_planted_misconfiguration_is_found_at_its_step(
    place: Place, tmp_path: Path, plant: Plant, step: str, error: type[Exception] | None, cure: str
) -> None:
    settings = plant(place)
    options = {"TOPIC": "--topic", "WRITTEN": "--write", "GROUP": "--group"}
    words = [word for name in options if name in settings for word in (options[name], settings.pop(name))]
    started = time.monotonic()
    if error is not None:

        def call() -> None:
            with Admin(settings) as admin:
                admin.topics(timeout=8)

        with pytest.raises(error):
            call()
        assert time.monotonic() - started < 12.0
    status, findings = doctor(settings, *words, cwd=tmp_path)
    wrong = [finding for finding in findings if not finding["ok"]]
    assert status == 1, findings
    assert [finding["step"] for finding in wrong] == [step] * len(wrong), findings
    assert cure in wrong[0]["problem"], wrong
    assert "\n" not in wrong[0]["problem"]
    assert wrong[0]["seconds"] < 12.0
    assert PASSWORD not in json.dumps(findings)


@pytest.mark.parametrize(("days", "warns"), [(29.5, True), (31.5, False), (-1.5, True)])
def test_the_days_of_certificates_are_shown(place: Place, tmp_path: Path, days: float, warns: bool) -> None:
    end = NOW + days * DAY
    server_end = end if days > 0 else NOW + 10 * DAY
    settings = place.certificate(client=end, not_after=server_end)
    status, findings = doctor(settings, cwd=tmp_path)
    of_client = next(finding for finding in findings if finding["subject"] == "client certificate")
    of_server = next(finding for finding in findings if finding["step"] == "tls")
    assert (of_client["ok"], of_client["days_left"]) == (True, int(days // 1))
    assert (of_client["warning"] is not None) == warns, of_client
    if days > 0:
        assert (status, of_server["days_left"], of_server["warning"] is not None) == (0, int(days // 1), warns)
        assert warns == (f"renew it before it expires on {end:%Y-%m-%d}" == of_server["warning"]), of_server
    else:
        assert (status, of_client["warning"]) == (1, f"it expired on {end:%Y-%m-%d}")
        assert f"it expired on {end:%Y-%m-%d}" in of_server["problem"]
    pairs = [word for name, value in settings.items() for word in ("-k", f"{name}={value}")]
    command = [sys.executable, "-m", "grete", "doctor", "--timeout", "3s", *pairs]
    text = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, cwd=tmp_path).stdout
    assert f"{days // 1:g} days left of the certificate" in text or days < 0
    assert ("WARNING" in text) == warns, text


def test_certificates_of_any_date_are_described() -> None:
    for at in (-(10**18), 0, 10**12, 10**18):
        assert "certificate" in CertificateEnd(at, time.time()).text


def test_all_is_well(place: Place, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import grete\napp = grete.App('shop')\n@app.consumer('orders')\ndef take(value: bytes) -> None: ...\n"
    )
    settings = place.tls(sasl={"alice": PASSWORD}) | LOGIN | {"security.protocol": "SASL_SSL"}
    status, findings = doctor(settings, "shop:app", cwd=tmp_path)
    assert status == 0, findings
    steps = [finding["step"] for finding in findings]
    assert steps == [
        "settings", "dns", "tcp", "tls", "api_versions", "sasl", "metadata", "advertised", "topic", "group",
    ]  # fmt: skip
    assert findings[-2]["subject"] == "orders"
    assert findings[-1]["subject"] == "shop"
