"""aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import ProducerFenced

from tests.kafka import Deadline, KafkaCluster

pytestmark = pytest.mark.kafka
PATIENCE = 60.0
PARTITIONS = 4


async def write(kafka: KafkaCluster, topic: str, count: int, **settings: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        sent = [await producer.send(topic, b"%d" % number, key=b"%d" % number) for number in range(count)]
        await asyncio.gather(*sent)


async def read(members: list[AIOKafkaConsumer], count: int, share: int = 0) -> int:
    """Reads until `count` records came and each member has `share` partitions. Returns the number of records."""
    seen: set[tuple[int, int]] = set()
    deadline = Deadline(PATIENCE)
    while len(seen) < count or any(share and len(member.assignment()) != share for member in members):
        assert not deadline.over, f"{len(seen)} of {count} records, {[len(one.assignment()) for one in members]}"
        for member in members:
            for messages in (await member.getmany(timeout_ms=50)).values():
                seen.update((message.partition, message.offset) for message in messages)
    return len(seen)


def consumer(kafka: KafkaCluster, group: str | None, topic: str, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap_servers, group_id=group, auto_offset_reset="earliest", **settings
    )


def test_records_in_each_codec(kafka: KafkaCluster, topic: str, group: str) -> None:
    async def run() -> int:
        for codec in (None, "gzip", "snappy", "lz4", "zstd"):
            # acks=0 comes last: a new partition whose leader is not ready loses such records without a word.
            for acks in ("all", 1, 0):
                await write(kafka, topic, 50, compression_type=codec, acks=acks)
        await write(kafka, topic, 50, enable_idempotence=True)
        async with consumer(kafka, group, topic) as member:
            return await read([member], 800)

    kafka.create_topic(topic, PARTITIONS)
    assert asyncio.run(run()) == 800


@pytest.mark.parametrize("kind", ["range", "roundrobin", "static"])
def test_members_share_the_partitions(kafka: KafkaCluster, topic: str, group: str, kind: str) -> None:
    assignor = RoundRobinPartitionAssignor if kind == "roundrobin" else RangePartitionAssignor

    async def run() -> None:
        await write(kafka, topic, 200)
        async with AsyncExitStack() as stack:
            members = []
            for number in range(2):
                own = {"group_instance_id": f"instance-{number}"} if kind == "static" else {}
                member = consumer(
                    kafka, group, topic, partition_assignment_strategy=[assignor], heartbeat_interval_ms=300, **own
                )
                members.append(await stack.enter_async_context(member))
            assert await read(members, 200, share=2) == 200
            await asyncio.gather(*(member.commit() for member in members))
            # Offsets that are moved by a member are where the others go on.
            first = members[0]
            (one, _) = sorted(first.assignment())
            await first.commit({one: 3})
            assert await first.committed(one) == 3

    kafka.create_topic(topic, PARTITIONS)
    asyncio.run(run())


def test_transactions_commit_abort_and_fence(kafka: KafkaCluster, topic: str, group: str) -> None:
    async def run() -> None:
        def new_producer() -> AIOKafkaProducer:
            return AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic)

        producer = new_producer()
        await producer.start()
        for number, commit in enumerate((True, False, True)):
            await producer.begin_transaction()
            for _ in range(10):
                await producer.send_and_wait(topic, b"value")
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 10 + number}, group)
            await (producer.commit_transaction() if commit else producer.abort_transaction())
        for isolation, count in (("read_committed", 20), ("read_uncommitted", 30)):
            async with consumer(kafka, None, topic, isolation_level=isolation) as member:
                assert await read([member], count) == count
        async with new_producer():
            with pytest.raises(ProducerFenced):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"of a zombie")
        with contextlib.suppress(ProducerFenced):
            await producer.stop()

    kafka.create_topic(topic)
    asyncio.run(run())
    assert kafka.admin.committed(group) == {(topic, 0): 12}
