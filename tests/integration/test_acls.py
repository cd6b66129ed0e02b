"""ACLs: administration, commands, and what clients and the doctor say about operations that brokers refuse.

The tests run on embedded brokers and on Apache Kafka with StandardAuthorizer.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import grete
from grete.broker import Broker
from grete.client import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    Admin,
    Consumer,
    PatternType,
    Producer,
    ResourceType,
)
from tests.integration.app_in_process import make, running
from tests.integration.sasl_cluster import token
from tests.kafka import KafkaCluster, eventually, fill, new_cluster
from tests.kafka.ports import ReservedPort
from tests.unit.probe_client import send_probe

pytestmark = pytest.mark.kafka

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANYONE = "User:ANONYMOUS"
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}


def commands(servers: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRETE_")}
    return subprocess.run(
        [sys.executable, "-m", "grete", *words, "--bootstrap", servers],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        input=stdin,
        env=environment,
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """A broker that checks ACLs, and allows what no ACL names. Its clients are anonymous."""
    properties = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with new_cluster(properties=properties) as kafka:
        yield kafka


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        yield admin
        admin.delete_acls([AclFilter()])
        eventually(lambda: not admin.describe_acls(), 20.0, "the deleted ACLs")


def topic_acl(name: str, operation: AclOperation = AclOperation.READ, **changes: Any) -> AclBinding:
    return dataclasses.replace(AclBinding(ResourceType.TOPIC, name, "User:alice", operation), **changes)


def known(admin: Admin, *acls: AclBinding) -> None:
    """Creates ACLs and waits until the broker has them."""
    admin.create_acls(acls)
    eventually(lambda: set(acls) <= set(admin.describe_acls()), 20.0, "the new ACLs")


# ---- administration


def test_acls_are_created_found_and_deleted(admin: Admin) -> None:
    # The anonymous clients of the tests keep their rights.
    own = AclBinding(ResourceType.CLUSTER, "kafka-cluster", ANYONE, AclOperation.ALL)
    known(admin, own)
    acls = [
        topic_acl("acls-orders"),
        topic_acl("acls-orders", AclOperation.WRITE, host="10.0.0.1"),
        topic_acl("acls-", pattern_type=PatternType.PREFIXED, permission=AclPermission.DENY, principal="User:b\u00f6b"),
        topic_acl("*", principal="User:CN=a,OU=b c"),
        AclBinding(ResourceType.GROUP, "acls-orders", "User:alice", AclOperation.READ),
        AclBinding(ResourceType.TRANSACTIONAL_ID, "t", "User:alice", AclOperation.WRITE),
        AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:alice", AclOperation.IDEMPOTENT_WRITE),
    ]
    known(admin, *acls)
    admin.create_acls(acls)  # again

    def found(**wanted: Any) -> set[AclBinding]:
        listed = admin.describe_acls(AclFilter(**wanted))
        assert len(listed) == len(set(listed))
        return set(listed) - {own}

    assert found() == set(acls)
    assert found(resource_type=ResourceType.TOPIC) == set(acls[:4])
    assert found(name="acls-orders") == {acls[0], acls[1], acls[4]}
    match = {"resource_type": ResourceType.TOPIC, "name": "acls-orders", "pattern_type": PatternType.MATCH}
    assert found(**match) == set(acls[:4])
    assert found(name="acls-orders", pattern_type=PatternType.PREFIXED) == set()
    assert found(pattern_type=PatternType.PREFIXED) == {acls[2]}
    assert found(name="*", pattern_type=PatternType.LITERAL) == {acls[3]}
    assert found(principal="User:b\u00f6b") == {acls[2]}
    assert found(principal="User:*") == set()
    assert found(operation=AclOperation.DESCRIBE) == set()
    assert found(host="10.0.0.1") == {acls[1]}
    assert found(permission=AclPermission.DENY) == {acls[2]}
    deleted = admin.delete_acls([AclFilter(principal="User:b\u00f6b"), AclFilter(name="nothing")])
    assert deleted == [[acls[2]], []]
    eventually(lambda: acls[2] not in admin.describe_acls(), 20.0, "the deleted ACL")
    assert admin.delete_acls([]) == []
    admin.create_acls([])


def test_the_awaitable_twins(admin: Admin) -> None:
    async def work() -> list[list[AclBinding]]:
        await admin.create_acls_async([topic_acl("acls-async")])
        await asyncio.to_thread(eventually, lambda: admin.describe_acls(AclFilter(name="acls-async")), 20.0, "the ACL")
        return await admin.delete_acls_async([AclFilter(name="acls-async")])

    assert asyncio.run(asyncio.wait_for(work(), 30.0)) == [[topic_acl("acls-async")]]


WRONG: list[tuple[Any, type[Exception], str]] = [
    ("orders", TypeError, "takes a list of AclBinding"),
    (["orders"], TypeError, "takes a list of AclBinding, not str"),
    ([topic_acl("")], ValueError, "name cannot be empty"),
    ([topic_acl("x", principal="alice")], ValueError, "a principal is TYPE:NAME"),
    ([topic_acl("x", principal="User:")], ValueError, "a principal is TYPE:NAME"),
    ([topic_acl("x", host="")], ValueError, "host cannot be empty"),
    ([topic_acl("x", AclOperation.ANY)], ValueError, "operation ANY is for filters"),
    ([topic_acl("x", pattern_type=PatternType.MATCH)], ValueError, "pattern_type MATCH is for filters"),
    ([topic_acl("x", permission=AclPermission.ANY)], ValueError, "permission ANY is for filters"),
    ([topic_acl("x", resource_type=ResourceType.UNKNOWN)], ValueError, "cannot be UNKNOWN"),
    ([topic_acl("x", operation=cast(Any, 3))], TypeError, "a member of AclOperation"),
    ([topic_acl("x", operation=cast(Any, "read"))], TypeError, "a member of AclOperation"),
    ([topic_acl("x" * 40_000)], ValueError, "at most 32767 bytes"),
    ([topic_acl("x", principal="User:\ud800")], ValueError, "not text that can be sent"),
    ([topic_acl("x", resource_type=ResourceType.CLUSTER)], ValueError, '"kafka-cluster"'),
]


@pytest.mark.parametrize(("acls", "error", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_wrong_acls_are_refused_at_the_call(acls: Any, error: type[Exception], text: str) -> None:
    with Admin({"bootstrap.servers": "127.0.0.1:1"}) as admin, pytest.raises(error, match=text):
        admin.create_acls(acls)


def test_wrong_filters_are_refused_at_the_call() -> None:
    with Admin({"bootstrap.servers": "127.0.0.1:1"}) as admin:
        with pytest.raises(TypeError, match="takes a list of AclFilter"):
            admin.delete_acls(AclFilter())  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="cannot be UNKNOWN"):
            admin.describe_acls(AclFilter(operation=AclOperation.UNKNOWN))
        with pytest.raises(TypeError, match="takes AclFilter"):
            admin.describe_acls(topic_acl("x"))  # type: ignore[arg-type]


def test_brokers_without_an_authorizer_name_the_cure(kafka: KafkaCluster) -> None:
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        for call in (
            admin.describe_acls,
            lambda: admin.create_acls([topic_acl("x")]),
            lambda: admin.delete_acls([AclFilter()]),
        ):
            with pytest.raises(grete.KafkaError, match=r"SECURITY_DISABLED.*authorizer\.class\.name"):
                call()


# ---- commands


def test_commands(cluster: KafkaCluster, admin: Admin) -> None:
    servers = cluster.bootstrap_servers
    made = commands(
        servers, "acls", "create", "--allow-principal", "User:shop", "--consumer", "--producer", "--topic", "shop-",
        "--group", "shop-", "--resource-pattern-type", "prefixed", "--json",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    rows = [json.loads(line) for line in made.stdout.splitlines()]
    assert {(row["resource"], row["operation"]) for row in rows} == {
        ("Topic", "Read"), ("Topic", "Write"), ("Topic", "Describe"), ("Topic", "Create"), ("Group", "Read"),
    }  # fmt: skip
    assert all(row["pattern"] == "Prefixed" and row["permission"] == "Allow" for row in rows)
    eventually(lambda: len(admin.describe_acls()) == 5, 20.0, "the new ACLs")
    listed = commands(servers, "acls", "list", "--topic", "shop-orders", "--resource-pattern-type", "match", "--json")
    assert len(listed.stdout.splitlines()) == 4
    one = ["--topic", "shop-", "--resource-pattern-type", "prefixed", "--operation", "create"]
    assert commands(servers, "acls", "delete", *one).returncode == 2  # there is no terminal to ask on
    assert "would be deleted" in commands(servers, "acls", "delete", *one, "--dry-run").stdout
    assert len(admin.describe_acls()) == 5
    deleted = commands(servers, "acls", "delete", *one, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert deleted.stdout == ("deleted: Allow Create on Topic names that begin with shop- to User:shop from *\n")
    eventually(lambda: len(admin.describe_acls()) == 4, 20.0, "the deleted ACL")
    assert "there are no such ACLs" in commands(servers, "acls", "delete", *one, "--yes").stderr
    table = commands(servers, "acls", "list", "--principal", "User:shop").stdout.splitlines()
    assert table[0].split()[:3] == ["RESOURCE", "NAME", "PATTERN"]
    assert len(table) == 5


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--topic", "a"], "say who"),
        (["--allow-principal", "User:a"], "say what about"),
        (["--allow-principal", "a", "--topic", "a"], "a principal is TYPE:NAME"),
        (["--allow-principal", "User:a", "--consumer", "--topic", "a"], "--consumer needs a --group"),
        (["--allow-principal", "User:a", "--topic", "a", "--operation", "fly"], "fly"),
        (["--allow-principal", "User:a", "--topic", "a", "--operation", "IdempotentWrite"], "give one of All, Read"),
        (["--allow-principal", "User:a", "--cluster", "--operation", "Read"], "no operation on a Cluster needs Read"),
        (["--allow-principal", "User:a", "--topic", "a", "--resource-pattern-type", "match"], "literal or prefixed"),
        (["--allow-principal", "User:a", "--topic", "a", "--deny-host", "h"], "--deny-host needs"),
        (["--allow-principal", "User:a", "--producer", "--topic", "a", "--operation", "read"], "leave out --operation"),
    ],
)
def test_wrong_command_lines(words: list[str], text: str) -> None:
    done = commands("127.0.0.1:1", "acls", "create", *words)
    assert done.returncode == 2
    assert text in done.stderr


# ---- operations that are refused


def test_the_doctor_names_what_is_missing(cluster: KafkaCluster, admin: Admin, topic: str) -> None:
    cluster.create_topic(topic)
    all_else = topic_acl(topic, AclOperation.ALL, principal=ANYONE)
    known(admin, all_else, topic_acl(topic, principal=ANYONE, permission=AclPermission.DENY))
    known(
        admin,
        AclBinding(ResourceType.GROUP, topic, ANYONE, AclOperation.READ, AclPermission.DENY),
        AclBinding(ResourceType.GROUP, topic, ANYONE, AclOperation.DESCRIBE),
    )
    done = commands(cluster.bootstrap_servers, "doctor", "--json", "--topic", topic, "--write", topic, "--group", topic)
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    problems = {finding["step"]: finding["problem"] for finding in findings if not finding["ok"]}
    assert set(problems) == {"topic", "group"}, findings
    assert f"needs Read on topic {topic}" in problems["topic"]
    assert "Write" not in problems["topic"]
    assert f"needs Read on group {topic}" in problems["group"]


def test_an_app_whose_right_is_taken_says_so_everywhere_and_loses_nothing(
    cluster: KafkaCluster, admin: Admin, topic: str
) -> None:
    cluster.create_topic(topic)
    fill(cluster.bootstrap_servers, topic, 50, partitions=1)
    offsets: list[int] = []
    with contextlib.ExitStack() as stack:
        port = ReservedPort()
        stack.callback(port.release)
        kafka = {"auto.offset.reset": "earliest", "metadata.max.age.ms": 1000}
        app = make(cluster, topic, kafka, probes=f"{port.host}:{port.number}")

        @app.consumer(topic)
        def note(message: grete.Message) -> None:
            offsets.append(message.offset)

        with running(app):
            eventually(lambda: len(offsets) == 50, 30.0, "the first records")
            taken = topic_acl(topic, principal=ANYONE, permission=AclPermission.DENY)
            known(admin, topic_acl(topic, AclOperation.ALL, principal=ANYONE), taken)
            fill(cluster.bootstrap_servers, topic, 50, partitions=1)

            def is_named() -> bool:
                lanes = app.statistics()["lanes"]
                return any(lane["state"] == "failed" and lane["reason"] == "not_authorized" for lane in lanes)

            eventually(is_named, 30.0, "the failed partition")
            answer = send_probe(f"{port.host}:{port.number}", "/readyz")
            assert "not_authorized" in str(answer)
            admin.delete_acls([AclFilter(name=topic)])
            eventually(lambda: len(offsets) == 100, 30.0, "the rest")
    assert offsets == list(range(100))


def test_a_group_whose_right_is_taken_ends_the_app_and_its_records_come_again(
    cluster: KafkaCluster, admin: Admin, topic: str
) -> None:
    cluster.create_topic(topic)
    fill(cluster.bootstrap_servers, topic, 10, partitions=1)
    taken = AclBinding(ResourceType.GROUP, topic, ANYONE, AclOperation.READ, AclPermission.DENY)
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    with contextlib.ExitStack() as stack:
        consumer = stack.enter_context(Consumer({**settings, "heartbeat.interval.ms": 200}))
        consumer.subscribe([topic])
        eventually(lambda: len(consumer.poll(0.5)) > 0, 30.0, "the first records")
        known(admin, taken)

        def poll() -> None:
            while True:
                consumer.poll(0.5)

        with pytest.raises(grete.AuthorizationError, match=f"needs Read on group {topic}: grete acls create"):
            poll()
    admin.delete_acls([AclFilter(name=topic)])
    eventually(lambda: taken not in admin.describe_acls(), 20.0, "the deleted ACL")
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as other:
        assert other.committed(topic) in ({}, {(topic, 0): 10})


def test_an_app_whose_group_right_is_taken_waits_for_it_and_loses_nothing(
    cluster: KafkaCluster, admin: Admin, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Twice: for less than the session, and for longer, so that its place is lost."""
    caplog.set_level(logging.INFO)
    cluster.create_topic(topic)
    taken = AclBinding(ResourceType.GROUP, topic, ANYONE, AclOperation.READ, AclPermission.DENY)
    offsets: list[int] = []
    with contextlib.ExitStack() as stack:
        port = ReservedPort()
        stack.callback(port.release)
        address = f"{port.host}:{port.number}"
        kafka = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": 200, "session.timeout.ms": 6000}
        app = make(cluster, topic, kafka, probes=address)

        @app.consumer(topic)
        def note(message: grete.Message) -> None:
            offsets.append(message.offset)

        says = f"needs Read on group {topic}: grete acls create --allow-principal {ANYONE} --operation Read"

        def handled(count: int) -> bool:
            return len(set(offsets)) == count

        def answers(status: int, reason: str) -> bool:
            answer = send_probe(address, "/readyz")
            named = reason in answer.reasons and says in str(answer.body)
            return answer.status == status and (named or not reason)

        with running(app):
            for count, status, reason in ((10, 200, "authorization"), (30, 503, "membership")):
                fill(cluster.bootstrap_servers, topic, 10, partitions=1)
                eventually(partial(handled, count), 60.0, "the records")
                eventually(partial(answers, 200, ""), 30.0, "readiness")
                known(admin, taken)
                failures = eventually(lambda: app.statistics()["authorization_failures"], 30.0, "the failure")
                assert says in failures[0]
                eventually(partial(answers, status, reason), 30.0, f"{status} because of {reason}")
                assert send_probe(address, "/livez").status == 200
                fill(cluster.bootstrap_servers, topic, 10, partitions=1)
                admin.delete_acls([AclFilter(name=topic)])
                eventually(lambda: not app.statistics()["authorization_failures"], 60.0, "the end of the failure")
            eventually(partial(handled, 40), 60.0, "the rest")
            eventually(lambda: cluster.admin.lag(topic, [topic]) == 0, 30.0, "the commits")
    assert set(offsets) == set(range(40))
    events = [(record.levelno, getattr(record, "event", None)) for record in caplog.records]
    assert events.count((logging.ERROR, "group.not_authorized")) == 2
    assert events.count((logging.INFO, "group.authorized")) == 2
    assert len([1 for level, _ in events if level >= logging.ERROR]) <= 4, events


def test_an_app_whose_outputs_may_not_be_written_goes_on_when_they_may(caplog: pytest.LogCaptureFixture) -> None:
    """Without any right to write, brokers refuse the producer id, too."""

    def settings(broker: Broker, user: str) -> dict[str, Any]:
        login = {"sasl.username": user, "sasl.password": user}
        return {"bootstrap.servers": broker.bootstrap_servers, **LOGIN, **login, "metadata.max.age.ms": 500}

    users = {"admin": "admin", "alice": "alice"}
    with (
        Broker(sasl=users, super_users=["admin"], topics=["orders", "invoices"]) as broker,
        Admin(settings(broker, "admin")) as admin,
    ):
        admin.create_acls([topic_acl("orders"), AclBinding(ResourceType.GROUP, "g", "User:alice", AclOperation.READ)])
        retry = grete.Retry(attempts=1000, backoff="50ms..200ms")
        kafka = {**settings(broker, "alice"), "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200}
        app = grete.App("g", kafka=kafka)

        def failures() -> list[str]:
            return [record.message for record in caplog.records if "invoice failed" in record.message]

        @app.consumer("orders", publish="invoices", retry=retry)
        def invoice(value: bytes) -> bytes:
            return b"for " + value

        with Producer(settings(broker, "admin")) as producer:
            producer.produce_many("orders", [b"%d" % number for number in range(20)]).wait(30)
        with running(app):
            first = eventually(failures, 30.0, "the failure")[0]
            assert "--allow-principal User:alice --operation Write --topic invoices" in first, first
            invoices = topic_acl("inv", AclOperation.WRITE, pattern_type=PatternType.PREFIXED)
            admin.create_acls([invoices])
            given = {("orders", 0): 20}
            eventually(lambda: admin.committed("g") == given, 30.0, lambda: f"the records; {failures()[-1]}")
        with Consumer({**settings(broker, "admin"), "group.id": "check", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["invoices"])
            values: list[bytes | None] = []

            def read() -> bool:
                values.extend(message.value for message in consumer.poll(0.5) or ())
                return len(values) >= 20

            eventually(read, 30.0, "the invoices")
    assert sorted(set(values), key=str) == sorted((b"for %d" % number for number in range(20)), key=str)


def test_an_app_names_a_topic_that_it_may_not_see_and_reads_it_when_it_may() -> None:
    def settings(broker: Broker, user: str) -> dict[str, Any]:
        login = {"sasl.username": user, "sasl.password": user}
        return {"bootstrap.servers": broker.bootstrap_servers, **LOGIN, **login, "metadata.max.age.ms": 500}

    users = {"admin": "admin", "alice": "alice"}
    with contextlib.ExitStack() as stack:
        port = ReservedPort()
        stack.callback(port.release)
        address = f"{port.host}:{port.number}"
        broker = stack.enter_context(Broker(sasl=users, super_users=["admin"], topics=["orders"]))
        admin = stack.enter_context(Admin(settings(broker, "admin")))
        admin.create_acls([AclBinding(ResourceType.GROUP, "g", "User:alice", AclOperation.READ)])
        with Producer(settings(broker, "admin")) as producer:
            producer.produce_sync("orders", b"x")
        seen: list[bytes] = []
        app = grete.App("g", kafka={**settings(broker, "alice"), "auto.offset.reset": "earliest"}, probes=address)

        @app.consumer("orders")
        def note(value: bytes) -> None:
            seen.append(value)

        with running(app):
            says = "grete acls create --allow-principal User:alice --operation Read --topic orders"
            eventually(lambda: says in str(app.statistics()["missing_topics"]), 30.0, "the topic")
            # The leader of the group has waited for the topic's partitions, and says nothing else.
            eventually(lambda: send_probe(address, "/readyz").status == 200, 30.0, "the assignment of nothing")
            assert says in str(app.statistics()["missing_topics"])
            assert says in str(send_probe(address, "/readyz").body)
            admin.create_acls([topic_acl("orders")])
            eventually(lambda: seen == [b"x"], 30.0, "the record")
            assert app.statistics()["missing_topics"] == []


def test_an_app_may_start_before_the_right_to_its_group_and_stops_at_once_without_it(
    cluster: KafkaCluster, admin: Admin, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic(topic)
    fill(cluster.bootstrap_servers, topic, 10, partitions=1)
    taken = AclBinding(ResourceType.GROUP, topic, ANYONE, AclOperation.ALL, AclPermission.DENY)
    known(admin, taken)
    seen: list[int] = []
    kafka = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": 200}
    app = make(cluster, topic, kafka, shutdown_timeout="300s")

    @app.consumer(topic)
    def note(message: grete.Message) -> None:
        seen.append(message.offset)

    with running(app):
        eventually(lambda: app.statistics()["authorization_failures"], 30.0, "the failure")
        assert not seen
        admin.delete_acls([AclFilter(name=topic)])
        eventually(lambda: len(seen) == 10, 60.0, "the records")
        known(admin, taken)
        eventually(lambda: app.statistics()["authorization_failures"], 30.0, "the failure")
        fill(cluster.bootstrap_servers, topic, 10, partitions=1)
        eventually(lambda: len(seen) == 20, 30.0, "the records without a commit")
        begin = time.monotonic()
    # Far from shutdown_timeout: what the broker refuses is asked for once more, and not waited for.
    assert time.monotonic() - begin < 100.0
    lost = [record.message for record in caplog.records if getattr(record, "event", "") == "offset.commit_failed"]
    assert any("offset 20 was not committed" in line for line in lost), lost
    admin.delete_acls([AclFilter(name=topic)])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_without_a_right_keeps_no_other_from_being_read(protocol: str) -> None:
    """Brokers refuse a member of the consumer protocol as a whole."""

    def settings(broker: Broker, user: str) -> dict[str, Any]:
        login = {"sasl.username": user, "sasl.password": user}
        return {"bootstrap.servers": broker.bootstrap_servers, **LOGIN, **login, "metadata.max.age.ms": 500}

    users = {"admin": "admin", "alice": "alice"}
    with (
        Broker(sasl=users, super_users=["admin"], topics=["orders", "secret"]) as broker,
        Admin(settings(broker, "admin")) as admin,
        Producer(settings(broker, "admin")) as producer,
    ):
        admin.create_acls([topic_acl("orders"), AclBinding(ResourceType.GROUP, "g", "User:alice", AclOperation.READ)])
        seen: list[bytes] = []
        app = grete.App("g", kafka={**settings(broker, "alice"), "group.protocol": protocol})

        @app.consumer("orders", "secret")
        def note(value: bytes) -> None:
            seen.append(value)

        for topic in ("orders", "secret"):
            producer.produce_sync(topic, topic.encode())
        with running(app):
            eventually(lambda: seen == [b"orders"], 30.0, "the record that may be read")
            admin.create_acls([topic_acl("secret")])
            eventually(lambda: seen == [b"orders", b"secret"], 30.0, "the other record")


def test_an_app_without_a_right_to_its_dead_letter_topic_says_so_before_it_needs_it() -> None:
    def settings(broker: Broker, user: str) -> dict[str, Any]:
        login = {"sasl.username": user, "sasl.password": user}
        return {"bootstrap.servers": broker.bootstrap_servers, **LOGIN, **login, "metadata.max.age.ms": 500}

    users = {"admin": "admin", "alice": "alice"}
    with (
        Broker(sasl=users, super_users=["admin"], topics=["orders", "orders.dlq"]) as broker,
        Admin(settings(broker, "admin")) as admin,
    ):
        admin.create_acls([topic_acl("orders"), AclBinding(ResourceType.GROUP, "g", "User:alice", AclOperation.READ)])
        app = grete.App("g", kafka=settings(broker, "alice"))

        @app.consumer("orders", dead_letter="orders.dlq")
        def note(value: bytes) -> None:
            """Reads."""

        with running(app):
            (text,) = eventually(lambda: app.statistics()["missing_topics"], 30.0, "the topic")
        assert 'topic "orders.dlq" may exist' in text
        assert "grete acls create --allow-principal User:alice --operation Write --topic orders.dlq" in text


@pytest.mark.parametrize("group", ["a b", "o'neil", "-x", "t\tab", "li\nne", "a --allow-principal User:NAME b"])
def test_the_printed_command_creates_the_acl_when_it_is_pasted(group: str) -> None:
    def settings(broker: Broker, user: str) -> dict[str, Any]:
        login = {"sasl.username": user, "sasl.password": user}
        return {"bootstrap.servers": broker.bootstrap_servers, **LOGIN, **login}

    users = {"admin": "admin", "alice": "alice"}
    with (
        Broker(sasl=users, super_users=["admin"], topics=["orders"]) as broker,
        Admin(settings(broker, "admin")) as admin,
    ):
        with Consumer({**settings(broker, "alice"), "group.id": group}) as consumer:
            consumer.subscribe(["orders"])
            with pytest.raises(grete.AuthorizationError) as caught:
                eventually(lambda: consumer.poll(0.2) and False, 20.0, "the error")
        command = str(caught.value).rpartition(": grete ")[2]
        kafka = [word for name, value in settings(broker, "admin").items() for word in ("-k", f"{name}={value}")]
        pasted = f"{sys.executable} -m grete {command} {shlex.join(kafka)}"
        done = subprocess.run(["bash", "-c", pasted], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert admin.describe_acls() == [AclBinding(ResourceType.GROUP, group, "User:alice", AclOperation.READ)]


@pytest.mark.parametrize("missing", ["login", "acl"])
def test_the_probes_of_a_swarm_name_the_node_and_what_a_broker_refuses(tmp_path: Path, missing: str) -> None:
    (tmp_path / "refused.py").write_text(
        "import grete\napp = grete.App('g')\n\n@app.consumer('orders')\ndef note(value: bytes) -> None: ...\n"
    )
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(
            Broker(sasl={"alice": "a", "admin": "b"}, super_users=["admin"], topics=["orders"])
        )
        port = ReservedPort()
        stack.callback(port.release)
        kafka = {
            "BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "SASL_MECHANISM": "SCRAM-SHA-256",
            "SASL_USERNAME": "alice",
            "SASL_PASSWORD": "a" if missing == "acl" else "another",
        }
        environment = {f"GRETE_KAFKA_{name}": value for name, value in kafka.items()}
        address = f"{port.host}:{port.number}"
        command = [sys.executable, "-m", "grete", "swarm", "refused:app", "--nodes", "2", "--probes", address]
        process = stack.enter_context(
            subprocess.Popen(
                [*command, "--control", str(tmp_path / "control.sock")],
                env={**os.environ, "PYTHONPATH": str(tmp_path), **environment},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        stack.callback(process.kill)
        says = {
            "acl": 'group "g": not allowed to use group g: the client needs Read on group g: grete acls create',
            "login": "cannot log in to",
        }[missing]

        def is_named() -> bool:
            answer = None
            with contextlib.suppress(OSError):
                answer = send_probe(address, "/readyz")
            why = str(answer.body["why"]) if answer is not None else ""
            return why.startswith("no node is ready; node ") and says in why

        eventually(is_named, 60.0, "the reason")


# ---- logins of embedded brokers


def test_users_of_embedded_brokers(tmp_path: Path) -> None:
    def settings(broker: Broker, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": broker.bootstrap_servers, **LOGIN, "sasl.username": user, "sasl.password": user,
        }  # fmt: skip

    users = {"admin": "admin", "alice": "alice"}
    with Broker(data=tmp_path, sasl=users, super_users=["admin"], topics=["orders", "secrets"]) as broker:
        with Admin(settings(broker, "alice")) as alice:
            assert alice.topics() == []
            with pytest.raises(grete.AuthorizationError) as caught:
                alice.create_acls([topic_acl("orders")])
            assert "--allow-principal User:alice --operation Alter --cluster" in str(caught.value)
        refused = pytest.raises(grete.AuthorizationError, match="grete acls create --allow-principal User:alice --")
        with refused, Producer(settings(broker, "alice")) as producer:
            producer.produce_sync("orders", b"x", timeout=20.0)
        with Admin(settings(broker, "admin")) as admin:
            admin.create_acls([topic_acl("orders"), topic_acl("orders", AclOperation.WRITE)])
        with Producer(settings(broker, "alice")) as producer:
            assert producer.produce_sync("orders", b"x", timeout=20.0).offset == 0
    # The ACLs are part of --data.
    with Broker(data=tmp_path, sasl=users, acls=True) as broker, Admin(settings(broker, "alice")) as alice:
        assert alice.topics() == ["orders"]
        described = alice.describe_topic("orders")
        assert described.operations == frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE})


def test_a_certificate_is_a_principal(tmp_path: Path) -> None:
    def topics(**options: Any) -> list[str]:
        with contextlib.ExitStack() as stack:
            broker = stack.enter_context(Broker(tls=tmp_path, mutual_tls=True, acls=True, topics=["orders"], **options))
            settings = {"bootstrap.servers": broker.bootstrap_servers, **broker.client_settings}
            return stack.enter_context(Admin(settings)).topics()

    assert topics(super_users=["CN=grete dev client"]) == ["orders"]
    assert topics() == []


def refusals(settings: dict[str, Any]) -> list[str]:
    """What each kind of client says of a topic and a group that it may not use."""
    texts = []
    with Admin(settings) as admin:
        admin.topics()  # the token names the user, and comes with the first call
        with pytest.raises(grete.AuthorizationError) as caught:
            admin.delete_topic("orders")
    texts.append(str(caught.value))
    with pytest.raises(grete.AuthorizationError) as caught, Producer(settings) as producer:
        producer.produce_sync("orders", b"x", timeout=20.0)
    texts.append(str(caught.value))
    with Consumer({**settings, "group.id": "g"}) as consumer:
        consumer.subscribe(["orders"])
        with pytest.raises(grete.AuthorizationError) as caught:
            eventually(lambda: consumer.poll(0.2) and False, 20.0, "the error")
    texts.append(str(caught.value))
    return texts


@pytest.mark.parametrize("kind", ["password", "token", "certificate", "nobody"])
def test_errors_name_the_principal_of_the_client(tmp_path: Path, kind: str) -> None:
    given: dict[str, Any] = {}
    brokers: dict[str, Any] = {"acls": True, "topics": ["orders"]}
    expected = "User:alice"
    if kind in ("password", "token"):
        brokers |= {"sasl": {"alice": "alice", "admin": "x"}, "super_users": ["admin"]}
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.allow.plaintext": True}
    if kind == "password":
        given |= {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice"}
    elif kind == "token":
        given |= {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": lambda: token(600.0)}
    if kind == "certificate":
        brokers |= {"tls": tmp_path, "mutual_tls": True}
        expected = "'User:CN=grete dev client'"
    elif kind == "nobody":
        expected = "User:ANONYMOUS"
    with Broker(**brokers) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, **broker.client_settings, **given}
        for text in refusals(settings):
            assert f"grete acls create --allow-principal {expected} --operation" in text, text


def test_super_users_are_names() -> None:
    with pytest.raises(grete.ConfigError, match="super_users are a list"):
        Broker(super_users="admin")
    with pytest.raises(grete.ConfigError, match="without semicolons"):
        Broker(super_users=["a;b"])
