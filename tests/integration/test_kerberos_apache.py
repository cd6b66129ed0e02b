"""Logins by Kerberos (GSSAPI) on Apache Kafka, with a KDC of Apache Kerby: keytabs, ticket caches, and each failure."""

from __future__ import annotations

import ctypes
import logging
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
from grete.client import Admin, Consumer, Producer
from tests.kafka import chosen, eventually
from tests.kafka.certificates import Authority
from tests.kafka.kerberos import REALM, Kdc, KerberosCluster
from tests.kafka.ports import ReservedPort

pytestmark = [pytest.mark.kafka, pytest.mark.apache(reason="the login module is Java's")]

SESSION_MS = 3000


@pytest.fixture(scope="module")
def library() -> None:
    """Fails without the library that the tests are about."""
    try:
        ctypes.CDLL("libgssapi_krb5.so.2")
    except OSError as error:
        pytest.fail(f"these tests need libgssapi_krb5.so.2 (Debian: apt install libgssapi-krb5-2): {error}")


@pytest.fixture(scope="module")
def kdc(library: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc, pytest.MonkeyPatch.context() as patch:
        for name in ("KRB5_CONFIG", "KRB5CCNAME"):  # before any client, which reads them on another thread
            patch.setenv(name, kdc.environment()[name])
        yield kdc


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "Kafka CA")


@pytest.fixture(scope="module")
def cluster(kdc: Kdc, authority: Authority) -> Iterator[KerberosCluster]:
    keystore = authority.sign("broker").keystore
    with KerberosCluster(chosen().detail or None, kdc, SESSION_MS, keystore) as cluster:
        cluster.create_topic("orders", partitions=2)
        yield cluster


@pytest.fixture(scope="module")
def keytab(kdc: Kdc) -> Path:
    return kdc.keytab("alice")


def settings(cluster: KerberosCluster, host: str = "localhost", **login: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.servers(host),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        **{name.replace("_", "."): value for name, value in login.items()},
    }


def by_keytab(cluster: KerberosCluster, keytab: Path, host: str = "localhost") -> dict[str, Any]:
    principal = f"{keytab.stem.replace('-', '/')}@{REALM}"
    return settings(cluster, host, sasl_kerberos_principal=principal, sasl_kerberos_keytab=str(keytab))


def jaas(options: str) -> str:
    return f"com.sun.security.auth.module.Krb5LoginModule required {options};"


def commanded(kafka: dict[str, Any], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs `grete topics list` in a process of its own, whose library reads its own environment."""
    words = [word for name, value in kafka.items() for word in ("--kafka", f"{name}={value}")]
    command = [sys.executable, "-m", "grete", "topics", "list", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("login", ["keytab", "line of Java's", "ticket cache"])
def test_a_group_a_producer_and_an_admin_log_in_and_renew_their_sessions(
    cluster: KerberosCluster, kdc: Kdc, keytab: Path, login: str, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    if login == "keytab":
        given = by_keytab(cluster, keytab, host)
    elif login == "ticket cache":
        cache = kdc.ticket_cache(f"bob{host.count('.')}")
        given = settings(cluster, host, sasl_jaas_config=jaas(f'useTicketCache=true ticketCache="{cache}"'))
    else:
        options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="alice@{REALM}"'
        given = settings(cluster, host, sasl_jaas_config=jaas(options))
    with (
        Producer({**given, "enable.idempotence": True, "acks": "all"}) as producer,
        Consumer({**given, "group.id": f"g-{login}-{host}"}) as consumer,
        Admin(given) as admin,
    ):
        consumer.subscribe(["orders"])
        values: list[bytes] = []
        prefix = f"{login}-{host}-"
        begin = time.monotonic()
        sent = 0
        # Two sessions long and more, without a connection that is lost.
        while (lasts := time.monotonic() < begin + 2.5 * SESSION_MS / 1000) or len(values) < sent:
            assert time.monotonic() < begin + 60, f"{len(values)} of {sent}"
            if lasts:
                producer.produce_sync("orders", f"{prefix}{sent}".encode())
                sent += 1
            messages = consumer.poll(timeout=0.05)
            values += [m.value for m in messages or () if m.value and m.value.startswith(prefix.encode())]
            if messages:
                consumer.commit(messages)
        assert sorted(values) == sorted(f"{prefix}{number}".encode() for number in range(sent))
        assert "orders" in admin.topics()
    assert [record.message for record in caplog.records] == []


def test_a_login_over_tls_renews_its_sessions(
    cluster: KerberosCluster, authority: Authority, keytab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SASL_SSL with GSSAPI, as clusters have it that encrypt."""
    caplog.set_level(logging.WARNING)
    given = by_keytab(cluster, keytab) | {
        "bootstrap.servers": cluster.tls_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.file),
    }
    with Producer(given) as producer, Consumer({**given, "group.id": "g-tls"}) as consumer, Admin(given) as admin:
        consumer.subscribe(["orders"])
        values: list[bytes] = []
        begin, sent = time.monotonic(), 0
        while (lasts := time.monotonic() < begin + 2.5 * SESSION_MS / 1000) or len(values) < sent:
            assert time.monotonic() < begin + 60, f"{len(values)} of {sent}"
            if lasts:
                producer.produce_sync("orders", f"tls-{sent}".encode())
                sent += 1
            read = [message.value or b"" for message in consumer.poll(timeout=0.05) or ()]
            values += [value for value in read if value.startswith(b"tls-")]
        assert sorted(values) == sorted(f"tls-{number}".encode() for number in range(sent))
        assert "orders" in admin.topics()
    assert [record.message for record in caplog.records] == []


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"ssl.ca.location": ""}, grete.TlsError, "ssl.ca.location"),
        ({"security.protocol": "SASL_PLAINTEXT"}, grete.NotKafkaError, "set security.protocol=SASL_SSL"),
        ({"sasl.kerberos.service.name": "other"}, grete.AuthenticationError, "does not know the broker's principal"),
    ],
)
def test_mistakes_with_tls_and_kerberos_are_kept_apart(
    cluster: KerberosCluster,
    authority: Authority,
    keytab: Path,
    change: dict[str, str],
    error: type[Exception],
    says: str,
) -> None:
    given = by_keytab(cluster, keytab) | {
        "bootstrap.servers": cluster.tls_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.file),
    }
    given = {name: value for name, value in (given | change).items() if value}
    if given["security.protocol"] == "SASL_PLAINTEXT":
        del given["ssl.ca.location"]
    with Admin(given) as admin, pytest.raises(error, match=says):
        admin.topics(timeout=30)


def test_an_app_logs_in(cluster: KerberosCluster, keytab: Path) -> None:
    seen: list[bytes] = []
    kafka = by_keytab(cluster, keytab) | {"auto.offset.reset": "earliest"}
    app = grete.App("kerberos-app", kafka=kafka)

    @app.consumer("orders")
    def handle(messages: grete.Messages) -> None:
        seen.extend(message.value or b"" for message in messages)

    with Producer(kafka) as producer:
        producer.produce_sync("orders", b"for the App")
    with app.running():
        eventually(lambda: b"for the App" in seen, 30.0, "the record")


def test_a_command_logs_in_with_the_ticket_of_the_environment(cluster: KerberosCluster, kdc: Kdc) -> None:
    listed = commanded(settings(cluster), kdc.environment(KRB5CCNAME=f"FILE:{kdc.ticket_cache('carol')}"))
    assert "orders" in listed.stdout, listed.stderr


def test_clients_of_one_keytab_ask_the_kdc_once(cluster: KerberosCluster, kdc: Kdc, tmp_path: Path) -> None:
    keytab, trace = kdc.keytab("dave"), tmp_path / "trace"
    code = textwrap.dedent(f"""
        from grete.client import Admin
        for _ in range(3):
            with Admin({by_keytab(cluster, keytab)!r}) as admin:
                assert "orders" in admin.topics(timeout=30)
    """)
    environment = kdc.environment(KRB5_TRACE=str(trace))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    tickets = [line for line in trace.read_text().splitlines() if "Received creds for desired service" in line]
    assert len(tickets) == 1, trace.read_text()


FAILURES = {
    "no ticket": "get one with kinit",
    "unknown service": r"does not know the broker's principal other/localhost",
    "unknown client": "refuses the principal of this client for ghost",
    "another principal": f"has no key for nobody@{REALM}",
    "no file": "cannot be read: No such file",
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_an_error_with_the_cure(cluster: KerberosCluster, kdc: Kdc, failure: str) -> None:
    given = settings(cluster)
    if failure != "no ticket":
        given = by_keytab(cluster, kdc.keytab("ghost" if failure == "unknown client" else f"erin{len(failure)}"))
    match failure:
        case "unknown service":
            given["sasl.kerberos.service.name"] = "other"
        case "unknown client":
            kdc.delete("ghost")
        case "another principal":
            given["sasl.kerberos.principal"] = f"nobody@{REALM}"
        case "no file":
            given["sasl.kerberos.keytab"] = "/nowhere/alice.keytab"
    with Admin(given) as admin, pytest.raises(grete.AuthenticationError, match=FAILURES[failure]) as caught:
        admin.topics(timeout=30)
    assert "no login by Kerberos" in str(caught.value)


def test_a_keytab_whose_key_was_changed_is_named(cluster: KerberosCluster, kdc: Kdc) -> None:
    keytab = kdc.keytab("frank")
    kdc.change_key("frank")
    refused = pytest.raises(grete.AuthenticationError, match="make it anew after a change of the password")
    with Admin(by_keytab(cluster, keytab)) as admin, refused as caught:
        admin.topics(timeout=30)
    assert str(keytab) in str(caught.value)


def test_a_kdc_that_is_down_is_named(cluster: KerberosCluster, kdc: Kdc, keytab: Path) -> None:
    port = ReservedPort()  # nothing listens there
    try:
        config = kdc.write_config("down.conf", port.number)
        refused = commanded(by_keytab(cluster, keytab), kdc.environment(KRB5_CONFIG=str(config)))
    finally:
        port.release()
    assert refused.returncode != 0
    assert "no KDC can be reached" in refused.stderr, refused.stderr
    assert "/etc/krb5.conf" in refused.stderr


def test_a_client_whose_kdc_hangs_can_be_closed(cluster: KerberosCluster, kdc: Kdc, keytab: Path) -> None:
    """The library waits for the KDC; the client ends without it, and so does the process."""
    code = textwrap.dedent(f"""
        import time
        import grete
        from grete.client import Admin
        with Admin({by_keytab(cluster, keytab)!r}) as admin:
            try:
                admin.topics(timeout=2)
            except grete.TimeoutError:
                begin = time.monotonic()
        print("closed in", time.monotonic() - begin)
    """)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        config = kdc.write_config("hangs.conf", silent.getsockname()[1])
        begin = time.monotonic()
        ran = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=kdc.environment(KRB5_CONFIG=str(config)),
            timeout=60,
            check=False,
        )
    assert ran.returncode == 0, (ran.returncode, ran.stderr)
    assert float(ran.stdout.split()[-1]) < 1.0
    assert time.monotonic() - begin < 10
