"""TLS on embedded brokers: every kind of client, other clients, rotation, and mistakes."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import grete
from grete import _native
from grete.broker import Broker
from grete.client import Admin, Consumer, Producer
from tests.integration.dev_process import DevRun
from tests.kafka.certificates import DAY, NOW, Authority, Identity
from tests.kafka.secrets import secret

pytestmark = pytest.mark.kafka
GRETE = [sys.executable, "-m", "grete"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("tls")
    with Broker(topics={"orders": 2}, brokers=2, tls=directory) as running:
        yield running


def settings(broker: Broker, **others: str) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in others.items()}
    return {"bootstrap.servers": broker.bootstrap_servers, **broker.client_settings, **named}


def written(config: Mapping[str, Any], topic: str, count: int = 100, size: int = 5000) -> None:
    with Producer(dict(config)) as producer:
        deliveries = [producer.produce(topic, value=b"%d" % i + b"x" * size, key=b"%d" % i) for i in range(count)]
        producer.flush(30)
        assert all(delivery.error is None for delivery in deliveries)


def read(config: Mapping[str, Any], topic: str, count: int = 100) -> None:
    group = {"group.id": f"group-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": True}
    with Consumer({**config, **group}) as consumer:
        consumer.subscribe([topic])
        seen: set[bytes] = set()
        while len(seen) < count:
            messages = consumer.poll(30.0)
            assert messages, f"{len(seen)} of {count} records within 30 s"
            seen |= {message.key or b"" for message in messages}


def test_group_producer_and_admin(broker: Broker) -> None:
    config = settings(broker)
    broker.create_topic("group", 3)
    with Admin(config) as admin:
        assert "group" in str(admin.topics())
    written(config, "group")
    read(config, "group")
    # 20 MB both ways: many records of TLS, in both directions.
    written(config, "orders", count=200, size=100_000)
    read(config, "orders", count=200)


def test_an_app(broker: Broker) -> None:
    app = grete.App("over-tls", kafka=settings(broker))
    seen: list[bytes] = []
    done = threading.Event()

    @app.consumer("app-orders")
    def on_order(value: bytes) -> None:
        seen.append(value)
        done.set()

    broker.create_topic("app-orders")
    written(settings(broker), "app-orders", count=1, size=1)
    with app.running():
        assert done.wait(30)
    assert seen == [b"0x"]


def test_commands(broker: Broker) -> None:
    pairs = [word for name, value in broker.client_settings.items() for word in ("-k", f"{name}={value}")]
    options = ["--bootstrap", broker.bootstrap_servers, *pairs]
    broker.create_topic("lines")
    produce = [*GRETE, "produce", *options, "lines"]
    produced = subprocess.run(produce, input=b"over tls\n", capture_output=True, timeout=60, check=False)
    assert produced.returncode == 0, produced.stderr
    consume = [*GRETE, "consume", *options, "lines", "--until-end"]
    consumed = subprocess.run(consume, capture_output=True, timeout=60, check=False)
    assert b"over tls" in consumed.stdout, consumed.stderr


def test_another_client_reads_and_writes(broker: Broker) -> None:
    config = settings(broker)
    broker.create_topic("foreign")
    written(config, "foreign", count=10)
    reader = confluent_kafka.Consumer({**config, "group.id": "foreign", "auto.offset.reset": "earliest"})
    try:
        reader.subscribe(["foreign"])
        found = [message for message in reader.consume(10, timeout=30) if message.error() is None]
        assert len(found) == 10
    finally:
        reader.close()
    producer = confluent_kafka.Producer(config)
    producer.produce("foreign", b"from librdkafka")
    assert producer.flush(30) == 0


def test_mutual_tls(tmp_path: Path) -> None:
    with Broker(topics=["orders"], tls=tmp_path, mutual_tls=True) as running:
        written(settings(running), "orders", count=3)
        read(settings(running), "orders", count=3)
        without = {name: value for name, value in settings(running).items() if "keystore" not in name}
        assert refused(without).reason == "certificate_required"
        other = Authority(tmp_path / "other", "Nobody's CA").sign("client")
        error = refused(without | {"ssl.keystore.location": str(other.keystore)})
        assert error.reason == "certificate_refused"
        assert "CN=grete dev CA" in str(error)


def test_new_certificates_are_taken_without_a_new_client(tmp_path: Path) -> None:
    """The broker stops and comes back with another CA: the client reads the CA's file again and goes on."""
    data = tmp_path / "data"
    first = Broker(topics=["orders"], tls=tmp_path / "tls", data=data)
    with first:
        port = first.addresses[0][1]
        config = settings(first)
        producer = Producer({**config, "reconnect.backoff.max.ms": "100"})
        producer.produce_sync("orders", b"before")
        ca = (tmp_path / "tls" / "ca.pem").read_bytes()
    try:
        with Broker(port=port, tls=tmp_path / "tls", data=data):
            assert (tmp_path / "tls" / "ca.pem").read_bytes() != ca
            producer.produce_sync("orders", b"after")
    finally:
        producer.close()


def test_dev_prints_what_clients_need(tmp_path: Path) -> None:
    with DevRun(tmp_path, "--mutual-tls", "--topic", "orders") as dev:
        servers = dev.bootstrap_servers
        dev.until("clients: ")
        line = next(line for line in dev.output.splitlines() if line.startswith("clients: "))
        pairs = dict(word.split("=", 1) for word in line.removeprefix("clients: ").split())
        written({"bootstrap.servers": servers, **pairs}, "orders", count=1)
        directory = Path(pairs["ssl.ca.location"]).parent
        assert (directory / "client.pem").stat().st_mode & 0o077 == 0
        assert dev.stop() == 0
        assert not directory.exists()


def test_dev_keeps_the_directory_of_certificates(tmp_path: Path) -> None:
    directory = tmp_path / "certificates"
    with DevRun(tmp_path, "--tls-dir", directory, "--topic", "orders") as dev:
        config = {"bootstrap.servers": dev.bootstrap_servers, "security.protocol": "SSL"}
        written(config | {"ssl.ca.location": str(directory / "ca.pem")}, "orders", count=1)
        assert f"ssl.ca.location={directory}/ca.pem" in dev.output
        assert dev.stop() == 0
    assert {file.name for file in directory.iterdir()} == {"ca.pem", "client.pem"}


def test_dev_on_an_address_that_others_reach(tmp_path: Path) -> None:
    """Logins over TLS are enough; an unsecured token, which everyone can make, is no login."""
    words = ["--host", "0.0.0.0", "--sasl", f"alice:{secret()}"]
    with DevRun(tmp_path, *words) as dev:
        assert dev.wait() == 1
        assert "passwords and records go over the network in plain text" in dev.output
        assert "no authentication" not in dev.output
    with DevRun(tmp_path, *words, "--tls") as dev:
        assert dev.wait() == 1
        assert "(advertised_host, --advertised-host)" in dev.output
    with DevRun(tmp_path, *words, "--tls", "--advertised-host", "localhost", "--topic", "orders") as dev:
        servers = dev.bootstrap_servers
        dev.until("clients: ")
        line = next(line for line in dev.output.splitlines() if line.startswith("clients: "))
        pairs = dict(word.split("=", 1) for word in line.removeprefix("clients: ").split())
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": secret()}
        written({"bootstrap.servers": servers, **pairs, **login}, "orders", count=1)
        token = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": lambda: "e30.e30."}
        with (
            Admin({"bootstrap.servers": servers, **pairs, **token}) as admin,
            pytest.raises(grete.AuthenticationError, match=r"does not offer sasl\.mechanism OAUTHBEARER"),
        ):
            admin.topics()


def refused(config: Mapping[str, Any]) -> grete.TlsError:
    with Admin(dict(config)) as admin, pytest.raises(grete.TlsError) as caught:
        admin.topics()
    return caught.value


def test_mistakes_reach_every_kind_of_client_as_one_line(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Authority(tmp_path, "Other CA")
    config = settings(broker) | {"ssl.ca.location": str(other.file)}
    producer = Producer(config)
    with pytest.raises(grete.TlsError, match=r"signed by CN=grete dev CA [0-9a-f]{8}, which is not"):
        producer.produce_sync("orders", b"x")
    with contextlib.suppress(grete.TlsError):  # the end says it, too
        producer.close()
    with Consumer(config) as consumer, pytest.raises(grete.TlsError) as caught:
        consumer.partitions("orders")
    assert caught.value.reason == "unknown_ca"
    caplog.clear()
    with caplog.at_level(logging.WARNING, "grete"), Admin(config) as admin, pytest.raises(grete.TlsError):
        admin.topics()
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) <= 2, [record.getMessage() for record in lines]  # one for each bootstrap address


def test_an_authority_that_was_made_anew(broker: Broker, tmp_path: Path) -> None:
    """A former CA of the same name as the broker's, as scripts with `openssl req` make them."""
    new, former = Authority(tmp_path / "new", "CA"), Authority(tmp_path / "former", "CA")
    with listening(new, new.sign("broker")) as config:
        error = refused(config | {"ssl.ca.location": str(former.file)})
    assert error.reason == "unknown_ca"
    assert "signed by CN=CA, and the certificate of this name in ssl.ca.location has another key" in str(error)
    with Broker(tls=tmp_path / "other") as other:
        error = refused(settings(other) | {"ssl.ca.location": settings(broker)["ssl.ca.location"]})
    assert error.reason == "unknown_ca"
    assert "which is not in ssl.ca.location; give the certificate of this issuer" in str(error)


def test_a_name_that_the_certificate_has_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path, "CA")
    with listening(authority, authority.sign("broker", hosts=["kafka.internal", "10.0.0.7"])) as config:
        error = refused(config)
        assert error.reason == "wrong_name"
        assert "is for kafka.internal, 10.0.0.7, and not for localhost" in str(error)
        for value in ("none", ""):
            caplog.clear()
            relaxed = config | {"ssl.endpoint.identification.algorithm": value}
            with caplog.at_level(logging.WARNING, "grete"), Admin(relaxed) as admin:
                admin.topics()
            assert len([line for line in caplog.messages if "are not compared" in line]) == 1


def test_a_plain_client_on_a_port_of_tls(broker: Broker) -> None:
    with (
        Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin,
        pytest.raises(grete.NotKafkaError, match=r"answers like a TLS server.*security\.protocol=SSL"),
    ):
        admin.topics()


def test_a_client_of_tls_on_a_plain_port(broker: Broker) -> None:
    with Broker() as plain:
        error = refused(settings(broker) | {"bootstrap.servers": plain.bootstrap_servers})
    assert error.reason == "closed_at_hello"
    assert "PLAINTEXT listener" in str(error)


def test_mistakes_of_clients_that_log_in(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": secret()}
    ca = {"ssl.ca.location": broker.client_settings["ssl.ca.location"]}
    with Broker(sasl={"alice": secret()}) as plain:
        error = refused(login | ca | {"security.protocol": "SASL_SSL", "bootstrap.servers": plain.bootstrap_servers})
    assert "as a SASL_PLAINTEXT listener does; use the port of a SASL_SSL listener" in str(error)
    config = login | {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.allow.plaintext": "true",
    }
    with (
        caplog.at_level(logging.WARNING, "grete"),
        Admin(config) as admin,
        pytest.raises(grete.NotKafkaError, match=r"set security\.protocol=SASL_SSL, or use .* SASL_PLAINTEXT listener"),
    ):
        admin.topics()
    lines = [line for line in caplog.messages if "TLS" in line]
    assert lines
    assert all("SASL_SSL" in line for line in lines), lines


def test_an_expired_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "CA")
    with listening(authority, authority.sign("broker", not_after=NOW - DAY)) as config:
        error = refused(config)
    assert error.reason == "expired"
    assert f"expired on {(NOW - DAY):%Y-%m-%d}" in str(error)
    assert "clock says" in str(error)


@contextlib.contextmanager
def listening(authority: Authority, identity: Identity) -> Iterator[dict[str, str]]:
    """A broker with this certificate, and the settings of its clients."""
    texts = (identity.chain.read_text(), identity.key.read_text(), None)
    native = _native.EmbeddedBroker(ports=[0], topics=[], tls=texts)
    try:
        address = f"localhost:{native.addresses()[0][2]}"
        ca = str(authority.file)
        yield {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": ca}
    finally:
        native.stop()


def test_files_are_checked_when_the_client_is_made(broker: Broker, tmp_path: Path) -> None:
    config = settings(broker)
    with pytest.raises(grete.ConfigError, match=r"ssl\.ca\.location = .*none\.pem: the file does not exist") as caught:
        Producer(config | {"ssl.ca.location": str(tmp_path / "none.pem")})
    assert caught.value.setting == "ssl.ca.location"
    identity = Authority(tmp_path, "CA").sign("client", password="hunter2")
    pair = {"ssl.certificate.location": str(identity.chain), "ssl.key.location": str(identity.key)}
    with pytest.raises(grete.ConfigError, match=r"is encrypted; set ssl\.key\.password"):
        Consumer(config | pair)
    with pytest.raises(grete.ConfigError, match=r"ssl\.key\.password is not the password") as caught:
        Admin(config | pair | {"ssl.key.password": "hunter3"})
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("kind", ["ec", "rsa:2048"])
def test_keys_in_the_formats_of_openssl(broker: Broker, tmp_path: Path, kind: str) -> None:
    """SEC1 and PKCS#1, as `openssl` writes them with -traditional."""
    options = ["-pkeyopt", "ec_paramgen_curve:prime256v1"] if kind == "ec" else []
    make = ["openssl", "req", "-x509", "-newkey", kind, *options, "-nodes", "-subj", "/CN=client"]
    subprocess.run([*make, "-keyout", "key.pem", "-out", "client.crt"], cwd=tmp_path, check=True, capture_output=True)
    convert = ["openssl", "pkey", "-in", "key.pem", "-traditional", "-out", "old.pem"]
    subprocess.run(convert, cwd=tmp_path, check=True)
    label = "EC" if kind == "ec" else "RSA"
    assert f"-----BEGIN {label} PRIVATE KEY-----" in (tmp_path / "old.pem").read_text()
    files = {"ssl.certificate.location": f"{tmp_path}/client.crt", "ssl.key.location": f"{tmp_path}/old.pem"}
    with Admin(settings(broker) | files) as admin:
        admin.topics()


def test_no_secret_is_shown(broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    identity = Authority(tmp_path, "CA").sign("client", password="hunter2")
    key = identity.key.read_text()
    secrets = {"ssl.key.pem": key, "ssl.key.password": "hunter2", "ssl.certificate.location": str(identity.chain)}
    config = settings(broker) | secrets
    body = key.splitlines()[1]
    with caplog.at_level(logging.DEBUG, "grete"), Admin(config) as admin:
        admin.topics()
        assert body not in repr(admin)
    app = grete.App("secret", kafka=config)
    pairs = [word for name, value in config.items() for word in ("-k", f"{name}={value}")]
    (tmp_path / "secret_app.py").write_text("import grete\napp = grete.App('secret')\n")
    info = [*GRETE, "info", *pairs, "secret_app:app"]
    shown = subprocess.run(info, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    text = shown.stdout + shown.stderr + caplog.text + repr(app) + repr(app.settings())
    assert "ssl.key.password" in shown.stdout, shown
    assert "hunter2" not in text
    assert body not in text
