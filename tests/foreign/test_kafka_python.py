"""kafka-python."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import ProducerFencedError

from tests.kafka import KafkaCluster, eventually

pytestmark = pytest.mark.kafka
PATIENCE = 60.0


def write(kafka: KafkaCluster, topic: str, count: int, **settings: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings)
    sent = [producer.send(topic, b"%d" % number, key=b"%d" % number) for number in range(count)]
    for one in sent:
        one.get(PATIENCE)
    producer.close()


def consumer(kafka: KafkaCluster, topic: str, group: str | None = None, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap_servers, group_id=group, auto_offset_reset="earliest", **settings
    )


def test_records_with_all_acks(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, 4)
    for codec in (None, "gzip"):
        for acks in (0, 1, "all"):
            write(kafka, topic, 50, compression_type=codec, acks=acks, enable_idempotence=acks == "all")
    reader = consumer(kafka, topic)
    seen: set[tuple[int, int]] = set()

    def come() -> bool:
        for messages in reader.poll(200).values():
            seen.update((message.partition, message.offset) for message in messages)
        return len(seen) == 300

    eventually(come, PATIENCE, "all records")
    reader.close()


@pytest.mark.parametrize("kind", ["eager", "cooperative", "static"])
def test_members_join_a_group(kafka: KafkaCluster, topic: str, group: str, kind: str) -> None:
    kafka.create_topic(topic, 4)
    write(kafka, topic, 200)
    assignor = CooperativeStickyAssignor if kind == "cooperative" else RangePartitionAssignor
    seen: set[tuple[int, int]] = set()
    stop = threading.Event()

    def member(number: int) -> None:
        own = {"group_instance_id": f"instance-{number}"} if kind == "static" else {}
        one = consumer(kafka, topic, group, partition_assignment_strategy=[assignor], **own)
        while not stop.is_set():
            # A member of this client whose poll times out during SyncGroup may not take up its assignment.
            for messages in one.poll(2000).values():
                seen.update((message.partition, message.offset) for message in messages)
        one.close()

    threads = [threading.Thread(target=member, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: len(seen) == 200, PATIENCE, "all records")
        eventually(lambda: len(kafka.admin.members(group)) == 2, PATIENCE, "two members")
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert sum(kafka.admin.committed(group).values()) == 200


def test_offsets_are_reset(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, 10)
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    partition = TopicPartition(topic, 0)
    admin.alter_group_offsets(group, {partition: OffsetAndMetadata(7, "", -1)})
    reader = consumer(kafka, topic, group)
    values: list[bytes] = []

    def come() -> bool:
        values.extend(message.value for messages in reader.poll(200).values() for message in messages)
        return len(values) == 3

    eventually(come, PATIENCE, "the records from offset 7 on")
    assert values == [b"7", b"8", b"9"]
    reader.close()
    admin.delete_groups([group])
    assert kafka.admin.committed(group) == {}
    admin.close()


def test_transactions_commit_abort_and_fence(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)

    def new_producer() -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic)
        producer.init_transactions()
        return producer

    producer = new_producer()
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for _ in range(10):
            producer.send(topic, b"value").get(PATIENCE)
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(10 + number, "", -1)}, group)
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    assert kafka.admin.committed(group) == {(topic, 0): 12}
    for isolation, count in (("read_committed", 20), ("read_uncommitted", 30)):
        reader = consumer(kafka, topic, isolation_level=isolation, consumer_timeout_ms=5000)
        values = [message.value for message, _ in zip(reader, range(count), strict=False)]
        assert len(values) == count
        reader.close()
    successor = new_producer()
    producer.begin_transaction()
    with pytest.raises(ProducerFencedError):
        producer.send(topic, b"of a zombie").get(PATIENCE)
    successor.close()
    producer.close(timeout=0)
