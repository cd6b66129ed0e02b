"""What the broker does not allow: named at once, with its cause, and no longer than it holds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import grete
from tests.integration.producers import producer as make
from tests.integration.producers import values
from tests.kafka import KafkaCluster, eventually, new_cluster

pytestmark = pytest.mark.kafka


def acl(
    kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType, pattern: ResourcePatternType
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:ANONYMOUS", "*", operation, permission)


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[KafkaCluster, AdminClient]]:
    """A broker that checks ACLs, and allows what no ACL names."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with new_cluster(properties=properties) as kafka:
        yield kafka, AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def deny(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation) -> None:
    bindings = [acl(kind, name, operation, AclPermissionType.DENY, ResourcePatternType.LITERAL)]
    if operation != AclOperation.ALL:
        # What has an ACL allows nothing else by itself; and the broker is anonymous, too.
        bindings.append(acl(kind, name, AclOperation.ALL, AclPermissionType.ALLOW, ResourcePatternType.LITERAL))
    for future in admin.create_acls(bindings).values():
        future.result(30.0)


def allow_again(admin: AdminClient) -> None:
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in admin.delete_acls([everything]).values():
        future.result(30.0)


@pytest.mark.parametrize("operation", [AclOperation.WRITE, AclOperation.ALL], ids=["write", "all"])
def test_a_topic_that_one_may_not_write(
    guarded: tuple[KafkaCluster, AdminClient], topic: str, operation: AclOperation
) -> None:
    kafka, admin = guarded
    free = f"{topic}-free"
    for name in (topic, free):
        kafka.create_topic(name)
    try:
        deny(admin, ResourceType.TOPIC, topic, operation)
        with make(kafka.bootstrap_servers) as producer:
            producer.produce_sync(free, b"a", timeout=30.0)
            with pytest.raises((grete.AuthorizationError, grete.DeliveryError), match=topic) as caught:
                producer.produce_sync(topic, b"refused", timeout=30.0)
            assert "TOPIC_AUTHORIZATION_FAILED" in str(caught.value)
            if isinstance(caught.value, grete.DeliveryError):
                assert caught.value.outcome == "not_written"
            assert producer.produce_sync(free, b"b", timeout=30.0).offset == 1
            allow_again(admin)

            def allowed() -> bool:
                # What metadata said of the topic holds until it is asked again.
                with contextlib.suppress(grete.GreteError):
                    return producer.produce_sync(topic, b"allowed", timeout=30.0).offset == 0
                return False

            eventually(allowed, 20.0, "the topic that may be written again")
    finally:
        allow_again(admin)
    assert values(kafka, topic) == [b"allowed"]


def test_an_idempotent_write_that_is_not_allowed(guarded: tuple[KafkaCluster, AdminClient], topic: str) -> None:
    """Kafka allows it to each principal that may write some topic, so no topic may be written, either."""
    kafka, admin = guarded
    kafka.create_topic(topic)
    try:
        deny(admin, ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE)
        deny(admin, ResourceType.TOPIC, "*", AclOperation.WRITE)
        with make(kafka.bootstrap_servers) as producer:
            for _ in range(2):
                says = r"CLUSTER_AUTHORIZATION_FAILED.*User:ANONYMOUS --operation Write.*enable\.idempotence"
                with pytest.raises((grete.AuthorizationError, grete.DeliveryError), match=says):
                    producer.produce_sync(topic, b"refused", timeout=30.0)
            allow_again(admin)

            def allowed() -> bool:
                with contextlib.suppress(grete.GreteError):
                    return producer.produce_sync(topic, b"allowed", timeout=30.0).offset == 0
                return False

            eventually(allowed, 20.0, "the producer goes on")
    finally:
        allow_again(admin)
