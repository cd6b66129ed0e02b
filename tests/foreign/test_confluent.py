"""confluent-kafka (librdkafka)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka import Deadline, KafkaCluster, eventually
from tests.kafka.admin import QUIET

pytestmark = pytest.mark.kafka
PATIENCE = 60.0
PARTITIONS = 6


@contextmanager
def consumer(kafka: KafkaCluster, group: str, topic: str, **settings: object) -> Iterator[Consumer]:
    """A member of the group that begins at the earliest record."""
    common: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest", **QUIET}
    own = {name.replace("_", "."): value for name, value in settings.items()}
    member = Consumer({**common, "group.id": group, **own})
    try:
        member.subscribe([topic])
        yield member
    finally:
        member.close()


def write(kafka: KafkaCluster, topic: str, values: list[str], **settings: object) -> None:
    """Produces the values and checks each delivery."""
    failures: list[object] = []
    own: dict[str, Any] = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5, **QUIET, **own})
    for value in values:
        producer.produce(topic, value, key=value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE) == 0
    assert failures == [None] * len(values)


def read(members: list[Consumer], count: int) -> list[str]:
    """The values that the members get, until there are `count`, sorted."""
    values: list[str] = []
    deadline = Deadline(PATIENCE)
    while len(values) < count:
        assert not deadline.over, f"{len(values)} of {count} records came"
        for member in members:
            for message in member.consume(1000, timeout=0.05):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                value = message.value()
                assert isinstance(value, bytes)
                values.append(value.decode())
    return sorted(values)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_in_each_codec_and_with_all_acks(kafka: KafkaCluster, topic: str, group: str, codec: str) -> None:
    kafka.create_topic(topic, PARTITIONS)
    values: list[str] = []
    # acks=0 comes last: a new partition whose leader is not ready loses such records without a word.
    for acks in ("all", "1", "0"):
        some = [f"{acks} {number} {'x' * 200}" for number in range(300)]
        write(kafka, topic, some, acks=acks, compression_type=codec, enable_idempotence=acks == "all")
        values += some
    with consumer(kafka, group, topic) as member:
        assert read([member], 900) == sorted(values)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky", "static"])
def test_members_share_the_partitions(kafka: KafkaCluster, topic: str, group: str, strategy: str) -> None:
    kafka.create_topic(topic, PARTITIONS)
    write(kafka, topic, [f"early {number:03}" for number in range(300)])
    settings: dict[str, object] = {"partition.assignment.strategy": "range" if strategy == "static" else strategy}
    with ExitStack() as stack:
        members: list[Consumer] = []
        for number in range(3):
            if strategy == "static":
                settings["group.instance.id"] = f"instance-{number}"
            members.append(stack.enter_context(consumer(kafka, group, topic, **settings)))
            members[-1].poll(0.1)

        def shared() -> bool:
            for member in members:
                member.consume(1000, timeout=0.05)
            return [len(member.assignment()) for member in members] == [2, 2, 2]

        eventually(shared, PATIENCE, "two partitions for each of the three members")
        assert kafka.admin.group_state(group) == "STABLE"
        late = [f"late {number:03}" for number in range(300)]
        write(kafka, topic, late)
        found: set[str] = set()

        # Early records that were not committed before the last rebalance come again.
        def has_late() -> bool:
            found.update(read(members, 1))
            return found >= set(late)

        eventually(has_late, PATIENCE, "all late records")
    # A member commits at its end.
    assert sum(kafka.admin.committed(group).values()) == 600


def test_offsets_are_reset(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, [f"{number}" for number in range(10)])
    with consumer(kafka, group, topic, enable_auto_commit=False) as member:
        assert len(read([member], 10)) == 10
        member.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
    to = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 7)])
    (altered,) = admin.alter_consumer_group_offsets([to]).values()
    assert altered.result(PATIENCE).topic_partitions[0].error is None
    with consumer(kafka, group, topic) as member:
        assert read([member], 3) == ["7", "8", "9"]
    admin.delete_consumer_groups([group])[group].result(PATIENCE)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups([group])[group].result(PATIENCE)


def test_transactions_commit_abort_and_fence(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    source = f"{topic}-source"
    kafka.create_topic(source)
    write(kafka, source, [f"{number}" for number in range(20)])
    settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, **QUIET}
    producer = Producer(settings)
    producer.init_transactions(PATIENCE)
    with consumer(kafka, group, source, enable_auto_commit=False) as member:
        assert len(read([member], 20)) == 20
        for commit in (True, False, True):
            producer.begin_transaction()
            producer.produce(topic, "committed" if commit else "aborted")
            # Or the producer drops what it has not sent, and the log holds no aborted record.
            producer.flush(PATIENCE)
            at = member.position(member.assignment())
            producer.send_offsets_to_transaction(at, member.consumer_group_metadata(), PATIENCE)
            if commit:
                producer.commit_transaction(PATIENCE)
            else:
                producer.abort_transaction(PATIENCE)
    assert kafka.admin.committed(group) == {(source, 0): 20}
    with consumer(kafka, f"{group}-committed", topic, isolation_level="read_committed") as reader:
        assert read([reader], 2) == ["committed", "committed"]
    with consumer(kafka, f"{group}-all", topic, isolation_level="read_uncommitted") as reader:
        assert read([reader], 3) == ["aborted", "committed", "committed"]
    successor = Producer(settings)
    successor.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(topic, "of a zombie")
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(PATIENCE)
    assert raised.value.args[0].code() == KafkaError._FENCED
    producer.purge()
