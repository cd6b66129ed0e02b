"""Logins by SASL on Apache Kafka: each mechanism with a group, an idempotent producer, administration and a command."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import grete
from grete.client import Admin, Consumer, Producer
from tests.integration.sasl_cluster import MECHANISMS, PASSWORD, SESSION_MS, SaslCluster, token
from tests.kafka.admin import QUIET
from tests.kafka.certificates import Authority

pytestmark = [pytest.mark.kafka, pytest.mark.apache(reason="the login modules are Kafka's")]

# Kafka takes passwords as they are, whatever SASLprep says: the numeral is "IX" after it.
SPECIAL = {"b=o,b": "pass,word=", "numeral": "\u2168"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    authority = Authority(tmp_path_factory.mktemp("ca"), "Kafka CA")
    with SaslCluster(authority, authority.sign("broker")) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        users = {"alice": PASSWORD, **SPECIAL}
        for mechanism in mechanisms:  # Kafka takes one change of a user at a time
            info = ScramCredentialInfo(mechanism, 4096)
            changes = [UserScramCredentialUpsertion(user, info, password.encode()) for user, password in users.items()]
            for future in admin.alter_user_scram_credentials([*changes]).values():
                future.result(30)
        cluster.create_topic("orders", partitions=2)
        yield cluster


def settings(cluster: SaslCluster, mechanism: str, **others: object) -> dict[str, Any]:
    login: dict[str, object] = {"sasl.username": "alice", "sasl.password": PASSWORD}
    if mechanism == "OAUTHBEARER":
        login = {"sasl.oauthbearer.token.provider": token}
    return {
        "bootstrap.servers": cluster.sasl_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.allow.plaintext": True,
        **login,
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def encrypted(cluster: SaslCluster) -> dict[str, Any]:
    """Settings of the listener with TLS."""
    return {
        "bootstrap.servers": cluster.tls_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(cluster.authority.file),
        "sasl.allow.plaintext": False,
    }


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_group_a_producer_and_an_admin_log_in_and_renew_their_sessions(
    cluster: SaslCluster, mechanism: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    given = settings(cluster, mechanism) | (encrypted(cluster) if protocol == "SASL_SSL" else {})
    with (
        Producer(given) as producer,
        Consumer({**given, "group.id": f"g-{mechanism}-{protocol}"}) as consumer,
        Admin(given) as admin,
    ):
        consumer.subscribe(["orders"])
        values: list[bytes] = []
        prefix = f"{mechanism}-{protocol}"
        begin = time.monotonic()
        sent = 0
        # Three sessions long, without a connection that is lost.
        while time.monotonic() < begin + 3 * SESSION_MS / 1000 or len(values) < sent:
            assert time.monotonic() < begin + 60, f"{len(values)} of {sent}"
            if time.monotonic() < begin + 3 * SESSION_MS / 1000:
                producer.produce_sync("orders", f"{prefix}-{sent}".encode())
                sent += 1
            messages = consumer.poll(timeout=0.05)
            values += [m.value for m in messages or () if m.value and m.value.startswith(f"{prefix}-".encode())]
        assert sorted(values) == sorted(f"{prefix}-{number}".encode() for number in range(sent))
        assert "orders" in admin.topics()
    assert [record.message for record in caplog.records if "without encryption" not in record.message] == []


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", SPECIAL)
def test_special_characters_of_users_and_passwords(cluster: SaslCluster, mechanism: str, user: str) -> None:
    login = {"sasl.username": user, "sasl.password": SPECIAL[user]}
    with Admin({**settings(cluster, mechanism), **login}) as admin:
        assert "orders" in admin.topics(timeout=20)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_refused_login_is_an_error_with_the_cure(cluster: SaslCluster, mechanism: str) -> None:
    change: dict[str, object] = {"sasl.password": "wr0ng"}
    says = "check sasl.username and sasl.password"
    if mechanism == "OAUTHBEARER":
        change, says = {"sasl.oauthbearer.token.provider": lambda: "not.a.token"}, "invalid_token"
    refused = pytest.raises(grete.AuthenticationError, match=says)
    with Admin({**settings(cluster, mechanism), **change}) as admin, refused as caught:
        admin.topics(timeout=20)
    assert "wr0ng" not in str(caught.value)


def test_a_token_of_another_clock_is_named(cluster: SaslCluster) -> None:
    """The broker says no more than invalid_token: the error has the times of the token beside this machine's clock."""

    def early() -> str:
        return token(7200.0, begin=3600.0)

    given = settings(cluster, "OAUTHBEARER") | {"sasl.oauthbearer.token.provider": early}
    says = r"invalid_token.*by this machine's clock the token is not valid for another 3[56][0-9][0-9] s"
    with Admin(given) as admin, pytest.raises(grete.AuthenticationError, match=says):
        admin.topics(timeout=20)


def test_listeners_that_do_not_fit_are_named(cluster: SaslCluster, caplog: pytest.LogCaptureFixture) -> None:
    refused = pytest.raises(grete.AuthenticationError, match=r"set security\.protocol to SASL")
    with Admin({"bootstrap.servers": cluster.sasl_servers}) as admin, refused:
        admin.topics(timeout=20)
    assert "set security.protocol to SASL" in caplog.text
    plain = {**settings(cluster, "SCRAM-SHA-256"), "bootstrap.servers": cluster.bootstrap_servers}
    with Admin(plain) as admin, pytest.raises(grete.AuthenticationError, match="does no SASL"):
        admin.topics(timeout=20)


def test_a_command_logs_in(cluster: SaslCluster) -> None:
    kafka = settings(cluster, "SCRAM-SHA-512")
    words = [word for name, value in kafka.items() for word in ("--kafka", f"{name}={value}".replace("=True", "=true"))]
    command = [sys.executable, "-m", "grete", "topics", "list", *words]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "orders" in listed.stdout, listed.stderr
