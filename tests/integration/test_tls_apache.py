"""Apache Kafka with listeners for TLS and for mutual TLS: every client connects, and mistakes are named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import grete
from grete.client import Admin, Consumer, Producer
from tests.kafka import chosen
from tests.kafka.certificates import Authority
from tests.kafka.ports import ReservedPort
from tests.kafka.tls_cluster import TlsCluster

pytestmark = [pytest.mark.kafka, pytest.mark.apache("Kafka's own TLS, in Java")]
GRETE = [sys.executable, "-m", "grete"]
PASSWORD = "hunter2 hunter2"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "Kafka CA")


@pytest.fixture(scope="module")
def kafka(authority: Authority) -> Iterator[TlsCluster]:
    with TlsCluster(chosen().detail, authority, authority.sign("broker")) as cluster:
        cluster.create_topic("orders", partitions=2)
        yield cluster


def settings(kafka: TlsCluster, port: ReservedPort | None = None, **others: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"localhost:{(port or kafka.tls).number}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(kafka.authority.file),
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def round_trip(config: Mapping[str, Any], group: str) -> None:
    with Admin(dict(config)) as admin:
        assert "orders" in str(admin.topics())
    with Producer(dict(config)) as producer:
        deliveries = [producer.produce("orders", value=b"x" * size, key=b"%d" % size) for size in (1, 100, 200_000)]
        producer.flush(30)
        assert all(delivery.error is None for delivery in deliveries)
    with Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["orders"])
        seen: set[int] = set()
        while not {1, 100, 200_000} <= seen:
            messages = consumer.poll(30.0)
            assert messages, "no records within 30 s"
            seen |= {len(message.value or b"") for message in messages}


def refused(config: Mapping[str, Any]) -> grete.TlsError:
    """The error of a client that asks for something."""
    with Admin(dict(config)) as admin, pytest.raises(grete.TlsError) as caught:
        admin.topics()
    return caught.value


def test_every_client_over_tls(kafka: TlsCluster) -> None:
    round_trip(settings(kafka), "over-tls")


def test_mutual_tls_in_both_spellings(kafka: TlsCluster, tmp_path: Path) -> None:
    client = kafka.authority.sign("client", password=PASSWORD)
    librdkafka = {
        "ssl.certificate.location": str(client.chain),
        "ssl.key.location": str(client.key),
        "ssl.key.password": PASSWORD,
    }
    round_trip(settings(kafka, kafka.mutual) | librdkafka, "librdkafka")
    # As out of an environment variable: the line ends are written out.
    java = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": kafka.authority.file.read_text().replace("\n", "\\n"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": client.chain.read_text().replace("\n", "\\n"),
        "ssl.keystore.key": client.key.read_text().replace("\n", "\\n"),
        "ssl.key.password": PASSWORD,
    }
    plain = {name: value for name, value in settings(kafka, kafka.mutual).items() if name != "ssl.ca.location"}
    round_trip(plain | java, "java")
    store = {"ssl.keystore.location": str(client.keystore), "ssl.key.password": PASSWORD}
    round_trip(settings(kafka, kafka.mutual) | store, "store")


def test_keystores_of_keytool(kafka: TlsCluster, tmp_path: Path) -> None:
    """PKCS#12 as keytool writes it is read; JKS is refused with the line that converts it, and the line works."""
    jks, p12 = tmp_path / "trust.jks", tmp_path / "trust.p12"
    password = ["-storepass", "hunter2"]
    source = ["-import", "-noprompt", "-alias", "ca", "-file", str(kafka.authority.file)]
    subprocess.run(["keytool", *source, "-keystore", str(jks), "-storetype", "JKS", *password], check=True)
    trust = {"ssl.truststore.location": str(jks), "ssl.truststore.password": "hunter2"}
    plain = {name: value for name, value in settings(kafka).items() if name != "ssl.ca.location"}
    with pytest.raises(grete.ConfigError, match=r"which only Java reads; convert it: (?P<line>keytool .*)") as caught:
        Admin(plain | trust)
    line = str(caught.value).split("convert it: ")[1].split(" (from")[0].split()
    extra = ["-srcstorepass", "hunter2", "-deststorepass", "hunter2"]
    subprocess.run([*line, *extra], check=True)
    round_trip(plain | trust | {"ssl.truststore.location": str(p12)}, "keytool")


def test_commands_over_tls(kafka: TlsCluster) -> None:
    words = [f"{name}={value}" for name, value in settings(kafka).items() if name != "bootstrap.servers"]
    options = ["--bootstrap", settings(kafka)["bootstrap.servers"], *(word for pair in words for word in ("-k", pair))]
    produced = subprocess.run(
        [*GRETE, "produce", *options, "orders"], input=b"over tls\n", capture_output=True, timeout=60
    )
    assert produced.returncode == 0, produced.stderr
    consume = [*GRETE, "consume", *options, "orders", "--until-end"]
    consumed = subprocess.run(consume, capture_output=True, timeout=60)
    assert b"over tls" in consumed.stdout, consumed.stderr


def test_a_certificate_that_the_broker_requires(kafka: TlsCluster, tmp_path: Path) -> None:
    error = refused(settings(kafka, kafka.mutual))
    assert error.reason == "certificate_required"
    assert "ssl.certificate.location" in str(error)
    other = Authority(tmp_path / "other", "Nobody's CA").sign("client")
    theirs = {"ssl.certificate.location": str(other.chain), "ssl.key.location": str(other.key)}
    error = refused(settings(kafka, kafka.mutual) | theirs)
    assert error.reason == "certificate_refused"
    assert "truststore" in str(error)


def test_an_authority_that_did_not_sign(kafka: TlsCluster, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "Nobody's CA")
    error = refused(settings(kafka) | {"ssl.ca.location": str(other.file)})
    assert error.reason == "unknown_ca"
    assert "signed by CN=Kafka CA, which is not in ssl.ca.location" in str(error)
    # Without a CA the system's are trusted, and this one is not among them.
    plain = {name: value for name, value in settings(kafka).items() if name != "ssl.ca.location"}
    error = refused(plain)
    assert error.reason == "unknown_ca"
    assert "the system's trusted certificates" in str(error)


def test_a_plain_client_on_a_port_of_tls(kafka: TlsCluster) -> None:
    with (
        Admin({"bootstrap.servers": f"localhost:{kafka.tls.number}"}) as admin,
        pytest.raises(grete.NotKafkaError, match=r"answers like a TLS server.*security\.protocol=SSL"),
    ):
        admin.topics()


def test_a_client_of_tls_on_a_plain_port(kafka: TlsCluster) -> None:
    error = refused(settings(kafka) | {"bootstrap.servers": kafka.bootstrap_servers})
    assert error.reason == "closed_at_hello"
    assert "PLAINTEXT listener" in str(error)
